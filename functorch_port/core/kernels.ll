; What every kernel of kernels.py has around its loop: a handler of XLA's foreign function interface, after
; xla/ffi/api/c_api.h, version 0.3, that shares a call's elements among the threads of XLA's pool.
;
; kernels.py adds
;     @sources      where each pointer of the loop comes from: 2 * i the i-th result, 2 * i + 1 the i-th argument
;     @count        the number of these pointers
;     @loop         void (ptr pointers, i64 start, i64 end): the update of the elements from start to before end
;
; A job is
;     i64 next      the first chunk that nobody has taken
;     i64 done      how many chunks are done
;     i64 holders   how many threads may still look at the job; the last one frees it
;     i64 size      elements
;     ptr[count]    the loop's pointers

%job = type { i64, i64, i64, i64, [0 x ptr] }

@chunk = internal constant i64 65536  ; elements that a thread takes at a time: some 0.1 ms

declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @sched_yield()
declare i64 @llvm.smin.i64(i64, i64)

define internal i64 @word(ptr %struct, i64 %offset) alwaysinline {
  %place = getelementptr i8, ptr %struct, i64 %offset
  %value = load i64, ptr %place
  ret i64 %value
}

define internal ptr @pointer(ptr %struct, i64 %offset) alwaysinline {
  %place = getelementptr i8, ptr %struct, i64 %offset
  %value = load ptr, ptr %place
  ret ptr %value
}

; Take chunks until there are none.
define internal void @work(ptr %job) {
entry:
  %done = getelementptr %job, ptr %job, i64 0, i32 1
  %size.at = getelementptr %job, ptr %job, i64 0, i32 3
  %size = load i64, ptr %size.at
  %pointers = getelementptr %job, ptr %job, i64 0, i32 4
  %chunk = load i64, ptr @chunk
  br label %take
take:
  %number = atomicrmw add ptr %job, i64 1 seq_cst
  %start = mul i64 %number, %chunk
  %left = icmp slt i64 %start, %size
  br i1 %left, label %do, label %out
do:
  %next = add i64 %start, %chunk
  %end = call i64 @llvm.smin.i64(i64 %next, i64 %size)
  call void @loop(ptr %pointers, i64 %start, i64 %end)
  %before = atomicrmw add ptr %done, i64 1 seq_cst
  br label %take
out:
  ret void
}

define internal void @let_go(ptr %job) {
  %holders = getelementptr %job, ptr %job, i64 0, i32 2
  %before = atomicrmw sub ptr %holders, i64 1 seq_cst
  %last = icmp eq i64 %before, 1
  br i1 %last, label %free, label %out
free:
  call void @free(ptr %job)
  ret void
out:
  ret void
}

; What another thread of the pool runs. It may come late: then all is done, and it only lets go.
define internal void @help(ptr %job) {
  call void @work(ptr %job)
  call void @let_go(ptr %job)
  ret void
}

; XLA_FFI_Metadata, asked for when the handler is registered: this is written after version 0.3 of the interface.
define internal void @tell(ptr %extension) {
  %metadata = call ptr @pointer(ptr %extension, i64 24)
  %major = getelementptr i8, ptr %metadata, i64 24
  store i32 0, ptr %major
  %minor = getelementptr i8, ptr %metadata, i64 28
  store i32 3, ptr %minor
  %traits = getelementptr i8, ptr %metadata, i64 32
  store i32 0, ptr %traits
  ret void
}

; Elements of a XLA_FFI_Buffer.
define internal i64 @elements(ptr %buffer) {
entry:
  %rank = call i64 @word(ptr %buffer, i64 32)
  %dims = call ptr @pointer(ptr %buffer, i64 40)
  br label %head
head:
  %axis = phi i64 [ 0, %entry ], [ %axis.next, %body ]
  %size = phi i64 [ 1, %entry ], [ %size.next, %body ]
  %more = icmp slt i64 %axis, %rank
  br i1 %more, label %body, label %out
body:
  %dim.at = getelementptr i64, ptr %dims, i64 %axis
  %dim = load i64, ptr %dim.at
  %size.next = mul i64 %size, %dim
  %axis.next = add i64 %axis, 1
  br label %head
out:
  ret i64 %size
}

define internal void @gather(ptr %frame, ptr %pointers) {
entry:
  %args = call ptr @pointer(ptr %frame, i64 72)
  %rets = call ptr @pointer(ptr %frame, i64 112)
  %count = load i64, ptr @count
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %out
body:
  %source.at = getelementptr i64, ptr @sources, i64 %i
  %source = load i64, ptr %source.at
  %is.arg = trunc i64 %source to i1
  %list = select i1 %is.arg, ptr %args, ptr %rets
  %number = lshr i64 %source, 1
  %buffer.at = getelementptr ptr, ptr %list, i64 %number
  %buffer = load ptr, ptr %buffer.at
  %data = call ptr @pointer(ptr %buffer, i64 24)
  %place = getelementptr ptr, ptr %pointers, i64 %i
  store ptr %data, ptr %place
  %next = add i64 %i, 1
  br label %head
out:
  ret void
}

; How many threads the pool has, by XLA_FFI_ThreadPool_NumThreads.
define internal i64 @threads(ptr %frame) {
  %api = call ptr @pointer(ptr %frame, i64 16)
  %context = call ptr @pointer(ptr %frame, i64 24)
  %ask = call ptr @pointer(ptr %api, i64 144)
  %answer = alloca i64
  store i64 1, ptr %answer
  %call = alloca { i64, ptr, ptr, ptr }
  store { i64, ptr, ptr, ptr } { i64 32, ptr null, ptr null, ptr null }, ptr %call
  %context.at = getelementptr { i64, ptr, ptr, ptr }, ptr %call, i64 0, i32 2
  store ptr %context, ptr %context.at
  %answer.at = getelementptr { i64, ptr, ptr, ptr }, ptr %call, i64 0, i32 3
  store ptr %answer, ptr %answer.at
  %error = call ptr %ask(ptr %call)
  call void @forget(ptr %api, ptr %error)
  %count = load i64, ptr %answer
  ret i64 %count
}

; XLA_FFI_Error_Destroy, of an error that does not matter.
define internal void @forget(ptr %api, ptr %error) {
  %none = icmp eq ptr %error, null
  br i1 %none, label %out, label %destroy
destroy:
  %call = alloca { i64, ptr, ptr }
  store { i64, ptr, ptr } { i64 24, ptr null, ptr null }, ptr %call
  %error.at = getelementptr { i64, ptr, ptr }, ptr %call, i64 0, i32 2
  store ptr %error, ptr %error.at
  %run = call ptr @pointer(ptr %api, i64 64)
  call void %run(ptr %call)
  ret void
out:
  ret void
}

; Ask for one more thread by XLA_FFI_ThreadPool_Schedule; a pool that has none lets go of the job for it.
define internal void @invite(ptr %frame, ptr %job) {
  %api = call ptr @pointer(ptr %frame, i64 16)
  %context = call ptr @pointer(ptr %frame, i64 24)
  %schedule = call ptr @pointer(ptr %api, i64 136)
  %call = alloca { i64, ptr, ptr, ptr, ptr }
  store { i64, ptr, ptr, ptr, ptr } { i64 40, ptr null, ptr null, ptr @help, ptr null }, ptr %call
  %context.at = getelementptr { i64, ptr, ptr, ptr, ptr }, ptr %call, i64 0, i32 2
  store ptr %context, ptr %context.at
  %job.at = getelementptr { i64, ptr, ptr, ptr, ptr }, ptr %call, i64 0, i32 4
  store ptr %job, ptr %job.at
  %error = call ptr %schedule(ptr %call)
  %done = icmp eq ptr %error, null
  br i1 %done, label %out, label %refused
refused:
  call void @forget(ptr %api, ptr %error)
  call void @let_go(ptr %job)
  ret void
out:
  ret void
}

; Share a job of more than one chunk among the threads, and wait until all of it is done. The wait is for chunks that
; other threads are working on, never for a thread to begin: so it ends however busy the pool is.
define internal void @share(ptr %frame, ptr %job, i64 %size) noinline {
entry:
  %chunk = load i64, ptr @chunk
  %round = add i64 %chunk, -1
  %up = add i64 %size, %round
  %chunks = sdiv i64 %up, %chunk
  %threads = call i64 @threads(ptr %frame)
  %hands = call i64 @llvm.smin.i64(i64 %threads, i64 %chunks)
  %done = getelementptr %job, ptr %job, i64 0, i32 1
  %holders = getelementptr %job, ptr %job, i64 0, i32 2
  %size.at = getelementptr %job, ptr %job, i64 0, i32 3
  store i64 0, ptr %job
  store i64 0, ptr %done
  store i64 %size, ptr %size.at
  %atleast = icmp sgt i64 %hands, 1
  %all = select i1 %atleast, i64 %hands, i64 1
  store atomic i64 %all, ptr %holders seq_cst, align 8
  br label %more
more:
  %invited = phi i64 [ 1, %entry ], [ %next, %one ]
  %missing = icmp slt i64 %invited, %all
  br i1 %missing, label %one, label %mine
one:
  call void @invite(ptr %frame, ptr %job)
  %next = add i64 %invited, 1
  br label %more
mine:
  call void @work(ptr %job)
  br label %check
check:
  %finished = load atomic i64, ptr %done seq_cst, align 8
  %whole = icmp eq i64 %finished, %chunks
  br i1 %whole, label %out, label %wait
wait:
  %ignored = call i32 @sched_yield()
  br label %check
out:
  call void @let_go(ptr %job)
  ret void
}

; XLA_FFI_Handler: no error, as a null pointer.
define ptr @handler(ptr %frame) {
entry:
  %extension = call ptr @pointer(ptr %frame, i64 8)
  %registers = icmp ne ptr %extension, null
  br i1 %registers, label %metadata, label %run
metadata:
  call void @tell(ptr %extension)
  ret ptr null
run:
  %rets = call ptr @pointer(ptr %frame, i64 112)
  %first = load ptr, ptr %rets
  %size = call i64 @elements(ptr %first)
  %count = load i64, ptr @count
  %words = add i64 %count, 4
  %bytes = mul i64 %words, 8
  %job = call ptr @malloc(i64 %bytes)
  %pointers = getelementptr %job, ptr %job, i64 0, i32 4
  call void @gather(ptr %frame, ptr %pointers)
  %chunk = load i64, ptr @chunk
  %many = icmp sgt i64 %size, %chunk
  br i1 %many, label %several, label %alone
several:
  call void @share(ptr %frame, ptr %job, i64 %size)
  ret ptr null
alone:
  call void @loop(ptr %pointers, i64 0, i64 %size)
  call void @free(ptr %job)
  ret ptr null
}
