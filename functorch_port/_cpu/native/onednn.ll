; A handler of XLA's foreign function interface that runs primitives of oneDNN, or its products of matrices, on the threads of
; XLA's pool; besides ffi.ll and pool.ll. A handler's data is the plan that onednn.py has made, words of 64 bits:
;     the engine; how many phases, which come one after the other. A phase:
;         how many chunks; whether each is done by one thread alone, or by all that OpenMP has; how many threads at most
;         take chunks; how many memories; how many steps;
;         for each memory: its descriptor; whether it is a result; the number of the argument or result; bytes into it, for
;         each chunk more, and for each thread more;
;         for each step: where its primitives are, and how many bytes it is from a chunk's to the next chunk's; how many
;         memories it takes; four times what one is to it and its number; or of a function of epilogue.py 0; where it is;
;         the first of the memories that it takes; planes of a chunk, groups, height, width, rows, columns;
; or it has none, and computes products with the words of the call. Threads compute them in parts, each a number of rows or of
; columns of one product:
;     0; how many parts, how many of one product; rows or columns of a part, and of the whole; whether they are rows;
;     rows, columns and inner dimension of a product; "T" or "N" for each matrix, and the length of the rows it lies in;
;     for each of the three matrices how many elements it is from one product to the next, and from a row or column of the
;     parts to the next; elements of a row into which a part of the first matrix, a transpose, is copied before, or 0.

%exec.arg = type { i32, ptr }

declare i32 @dnnl_stream_create(ptr, ptr, i32)
declare i32 @dnnl_stream_wait(ptr)
declare i32 @dnnl_stream_destroy(ptr)
declare i32 @dnnl_memory_create(ptr, ptr, ptr, ptr)
declare i32 @dnnl_memory_set_data_handle(ptr, ptr)
declare i32 @dnnl_memory_destroy(ptr)
declare i32 @dnnl_primitive_execute(ptr, ptr, i32, ptr)
; OpenMP's, of the library that oneDNN uses: how many threads a parallel region of this thread has.
declare void @omp_set_num_threads(i32)
declare i32 @omp_get_max_threads()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @dnnl_sgemm(i8 signext, i8 signext, i64, i64, i64, float, ptr, i64, ptr, i64, float, ptr, i64)

define internal ptr @answer(ptr %frame, ptr %plan) {
  %has.phases = icmp ne ptr %plan, null
  br i1 %has.phases, label %phases, label %product
phases:
  %run.status = call i32 @run(ptr %frame, ptr %plan)
  br label %end
product:
  %multiply.status = call i32 @multiply(ptr %frame)
  br label %end
end:
  %status = phi i32 [ %run.status, %phases ], [ %multiply.status, %product ]
  %error = call ptr @error_of(ptr %frame, i32 %status)
  ret ptr %error
}

; A plan of phases may be gone when a thread comes late; words of products are in the job.
define internal void @work(ptr %job) {
  %plan = call ptr @pointer(ptr %job, i64 32)
  %words = getelementptr %job, ptr %job, i64 0, i32 4, i64 6
  %has.phases = icmp ne ptr %plan, %words
  br i1 %has.phases, label %phase, label %product
phase:
  call void @work_on_phase(ptr %job)
  ret void
product:
  call void @work_on_product(ptr %job)
  ret void
}

; Of a job whose rest is the plan, the three matrices, where to note that something failed, where to copy to, and the words
; that are the plan.
define internal void @work_on_product(ptr %job) {
entry:
  %done = getelementptr %job, ptr %job, i64 0, i32 1
  %plan = call ptr @pointer(ptr %job, i64 32)
  %a = call ptr @pointer(ptr %job, i64 40)
  %b = call ptr @pointer(ptr %job, i64 48)
  %out = call ptr @pointer(ptr %job, i64 56)
  %failed = call ptr @pointer(ptr %job, i64 64)
  %chunks = call i64 @word(ptr %plan, i64 8)
  %parts = call i64 @word(ptr %plan, i64 16)
  %part = call i64 @word(ptr %plan, i64 24)
  %whole = call i64 @word(ptr %plan, i64 32)
  %by.rows.word = call i64 @word(ptr %plan, i64 40)
  %by.rows = trunc i64 %by.rows.word to i1
  %all.rows = call i64 @word(ptr %plan, i64 48)
  %all.columns = call i64 @word(ptr %plan, i64 56)
  %inner = call i64 @word(ptr %plan, i64 64)
  %left.word = call i64 @word(ptr %plan, i64 72)
  %left = trunc i64 %left.word to i8
  %left.row = call i64 @word(ptr %plan, i64 80)
  %right.word = call i64 @word(ptr %plan, i64 88)
  %right = trunc i64 %right.word to i8
  %right.row = call i64 @word(ptr %plan, i64 96)
  %a.steps = getelementptr i64, ptr %plan, i64 13
  %b.steps = getelementptr i64, ptr %plan, i64 15
  %out.steps = getelementptr i64, ptr %plan, i64 17
  %copied.row = call i64 @word(ptr %plan, i64 152)
  %copies = icmp ne i64 %copied.row, 0
  %room = call ptr @pointer(ptr %job, i64 72)
  %copied.numbers = mul i64 %copied.row, %inner
  %before = call i32 @omp_get_max_threads()
  call void @omp_set_num_threads(i32 1)
  br label %take
take:
  %number = atomicrmw add ptr %job, i64 1 seq_cst
  %left.over = icmp slt i64 %number, %chunks
  br i1 %left.over, label %do, label %end
do:
  %product = sdiv i64 %number, %parts
  %within = srem i64 %number, %parts
  %start = mul i64 %within, %part
  %rest = sub i64 %whole, %start
  %size = call i64 @llvm.smin.i64(i64 %rest, i64 %part)
  %rows = select i1 %by.rows, i64 %size, i64 %all.rows
  %columns = select i1 %by.rows, i64 %all.columns, i64 %size
  %a.part = call ptr @part(ptr %a, ptr %a.steps, i64 %product, i64 %start)
  %b.part = call ptr @part(ptr %b, ptr %b.steps, i64 %product, i64 %start)
  %out.part = call ptr @part(ptr %out, ptr %out.steps, i64 %product, i64 %start)
  %room.skipped = mul i64 %copied.numbers, %number
  %copied = getelementptr float, ptr %room, i64 %room.skipped
  br i1 %copies, label %copy, label %multiply
copy:
  %row.bytes = mul i64 %rows, 4
  br label %copy.row
copy.row:
  %k = phi i64 [ 0, %copy ], [ %k.next, %copy.row ]
  %from.skipped = mul i64 %k, %left.row
  %from = getelementptr float, ptr %a.part, i64 %from.skipped
  %to.skipped = mul i64 %k, %copied.row
  %to = getelementptr float, ptr %copied, i64 %to.skipped
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %row.bytes, i1 false)
  %k.next = add nuw nsw i64 %k, 1
  %k.more = icmp slt i64 %k.next, %inner
  br i1 %k.more, label %copy.row, label %multiply
multiply:
  %first = phi ptr [ %a.part, %do ], [ %copied, %copy.row ]
  %first.row = phi i64 [ %left.row, %do ], [ %copied.row, %copy.row ]
  %status = call i32 @dnnl_sgemm(i8 signext %left, i8 signext %right, i64 %rows, i64 %columns, i64 %inner, float 1.0, ptr %first, i64 %first.row, ptr %b.part, i64 %right.row, float 0.0, ptr %out.part, i64 %all.columns)
  %noted = atomicrmw or ptr %failed, i32 %status seq_cst
  %counted = atomicrmw add ptr %done, i64 1 seq_cst
  br label %take
end:
  call void @omp_set_num_threads(i32 %before)
  ret void
}

; Where a part of a product begins in a matrix.
define internal ptr @part(ptr %matrix, ptr %steps, i64 %product, i64 %start) alwaysinline {
  %each = call i64 @word(ptr %steps, i64 0)
  %one = call i64 @word(ptr %steps, i64 8)
  %skipped = mul i64 %each, %product
  %further = mul i64 %one, %start
  %elements = add i64 %skipped, %further
  %place = getelementptr float, ptr %matrix, i64 %elements
  ret ptr %place
}

define internal i32 @multiply(ptr %frame) {
  %failed = alloca i32
  store i32 0, ptr %failed
  %args = call ptr @pointer(ptr %frame, i64 72)
  %rets = call ptr @pointer(ptr %frame, i64 112)
  %a = call ptr @array(ptr %args, i64 0)
  %b = call ptr @array(ptr %args, i64 1)
  %out = call ptr @array(ptr %rets, i64 0)
  %room = call ptr @array(ptr %rets, i64 1)
  %job = call ptr @new_job(i64 26)
  %words = call ptr @words(ptr %frame)
  %plan = getelementptr %job, ptr %job, i64 0, i32 4, i64 6
  call void @llvm.memcpy.p0.p0.i64(ptr %plan, ptr %words, i64 160, i1 false) ; a thread may come when the call is over
  %plan.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 0
  store ptr %plan, ptr %plan.at
  %room.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 5
  store ptr %room, ptr %room.at
  %a.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 1
  store ptr %a, ptr %a.at
  %b.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 2
  store ptr %b, ptr %b.at
  %out.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 3
  store ptr %out, ptr %out.at
  %failed.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 4
  store ptr %failed, ptr %failed.at
  %chunks = call i64 @word(ptr %plan, i64 8)
  %several = icmp sgt i64 %chunks, 1
  br i1 %several, label %ask, label %begin
ask:
  %threads = call i64 @threads(ptr %frame)
  %fewer = call i64 @llvm.smin.i64(i64 %threads, i64 %chunks)
  %some = call i64 @llvm.smax.i64(i64 %fewer, i64 1)
  br label %begin
begin:
  %hands = phi i64 [ 1, %0 ], [ %some, %ask ]
  call void @share(ptr %frame, ptr %job, i64 %chunks, i64 %hands)
  %status = load atomic i32, ptr %failed seq_cst, align 4
  ret i32 %status
}

; Run the phases of a plan.
define internal i32 @run(ptr %frame, ptr %plan) {
entry:
  %failed = alloca i32
  store i32 0, ptr %failed
  %phases = call i64 @word(ptr %plan, i64 8)
  %first = getelementptr i64, ptr %plan, i64 2
  br label %head
head:
  %p = phi i64 [ 0, %entry ], [ %p.next, %begin ]
  %phase = phi ptr [ %first, %entry ], [ %phase.next, %begin ]
  %more = icmp slt i64 %p, %phases
  br i1 %more, label %body, label %end
body:
  %job = call ptr @new_job(i64 7) ; so that the place of words is the job's own
  %plan.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 0
  store ptr %plan, ptr %plan.at
  %phase.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 1
  store ptr %phase, ptr %phase.at
  %frame.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 2
  store ptr %frame, ptr %frame.at
  %failed.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 3
  store ptr %failed, ptr %failed.at
  %taken.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 4
  store i64 0, ptr %taken.at
  %chunks = call i64 @word(ptr %phase, i64 0)
  %most = call i64 @word(ptr %phase, i64 16)
  %memories = call i64 @word(ptr %phase, i64 24)
  %steps = call i64 @word(ptr %phase, i64 32)
  %memory.words = mul i64 %memories, 6
  %step.words = mul i64 %steps, 11
  %both = add i64 %memory.words, %step.words
  %all = add i64 %both, 5
  %phase.next = getelementptr i64, ptr %phase, i64 %all
  %p.next = add i64 %p, 1
  %few = call i64 @llvm.smin.i64(i64 %most, i64 %chunks)
  %several = icmp sgt i64 %few, 1
  br i1 %several, label %ask, label %begin
ask:
  %threads = call i64 @threads(ptr %frame)
  %fewer = call i64 @llvm.smin.i64(i64 %threads, i64 %few)
  %some = call i64 @llvm.smax.i64(i64 %fewer, i64 1)
  br label %begin
begin:
  %hands = phi i64 [ 1, %body ], [ %some, %ask ]
  call void @share(ptr %frame, ptr %job, i64 %chunks, i64 %hands)
  br label %head
end:
  %status = load atomic i32, ptr %failed seq_cst, align 4
  ret i32 %status
}

; Of a job whose rest is the plan, the phase, the call, where to note that something failed, and how many threads have come.
; Until a thread has taken a chunk the call may be over, and only the job itself be there.
define internal void @work_on_phase(ptr %job) {
entry:
  %stream.at = alloca ptr
  %given = alloca [4 x %exec.arg]
  %phase = call ptr @pointer(ptr %job, i64 40)
  %chunks = call i64 @word(ptr %job, i64 24)
  %first = atomicrmw add ptr %job, i64 1 seq_cst
  %late = icmp sge i64 %first, %chunks
  br i1 %late, label %out, label %prepare
prepare:
  %done = getelementptr %job, ptr %job, i64 0, i32 1
  %taken.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 4
  %thread = atomicrmw add ptr %taken.at, i64 1 seq_cst
  %plan = call ptr @pointer(ptr %job, i64 32)
  %engine = call ptr @pointer(ptr %plan, i64 0)
  %frame = call ptr @pointer(ptr %job, i64 48)
  %failed = call ptr @pointer(ptr %job, i64 56)
  %args = call ptr @pointer(ptr %frame, i64 72)
  %rets = call ptr @pointer(ptr %frame, i64 112)
  %alone.word = call i64 @word(ptr %phase, i64 8)
  %alone = trunc i64 %alone.word to i1
  %count = call i64 @word(ptr %phase, i64 24)
  %steps = call i64 @word(ptr %phase, i64 32)
  %memory.table = getelementptr i64, ptr %phase, i64 5
  %memory.words = mul i64 %count, 6
  %step.table = getelementptr i64, ptr %memory.table, i64 %memory.words
  %memories = alloca ptr, i64 %count
  %places = alloca ptr, i64 %count
  %before = call i32 @omp_get_max_threads()
  %wanted = select i1 %alone, i32 1, i32 %before
  call void @omp_set_num_threads(i32 %wanted)
  %created = call i32 @dnnl_stream_create(ptr %stream.at, ptr %engine, i32 1)
  %stream = load ptr, ptr %stream.at
  br label %memory
memory:
  %m = phi i64 [ 0, %prepare ], [ %m.next, %make ]
  %status.m = phi i32 [ %created, %prepare ], [ %status.m.next, %make ]
  %m.more = icmp slt i64 %m, %count
  br i1 %m.more, label %make, label %chunk
make:
  %m.word = mul i64 %m, 6
  %m.row = getelementptr i64, ptr %memory.table, i64 %m.word
  %descriptor = call ptr @pointer(ptr %m.row, i64 0)
  %memory.at = getelementptr ptr, ptr %memories, i64 %m
  %made = call i32 @dnnl_memory_create(ptr %memory.at, ptr %descriptor, ptr %engine, ptr null)
  %status.m.next = or i32 %status.m, %made
  %m.next = add i64 %m, 1
  br label %memory
chunk:
  %number = phi i64 [ %first, %memory ], [ %following, %next ]
  %status.c = phi i32 [ %status.m, %memory ], [ 0, %next ]
  br label %place
place:
  %q = phi i64 [ 0, %chunk ], [ %q.next, %put.memory ]
  %status.q = phi i32 [ %status.c, %chunk ], [ %status.q.next, %put.memory ]
  %q.more = icmp slt i64 %q, %count
  br i1 %q.more, label %put.memory, label %step
put.memory:
  %q.word = mul i64 %q, 6
  %q.row = getelementptr i64, ptr %memory.table, i64 %q.word
  %is.result = call i64 @word(ptr %q.row, i64 8)
  %which = call i64 @word(ptr %q.row, i64 16)
  %into = call i64 @word(ptr %q.row, i64 24)
  %each.chunk = call i64 @word(ptr %q.row, i64 32)
  %each.thread = call i64 @word(ptr %q.row, i64 40)
  %flag = trunc i64 %is.result to i1
  %list = select i1 %flag, ptr %rets, ptr %args
  %data = call ptr @array(ptr %list, i64 %which)
  %of.chunk = mul i64 %each.chunk, %number
  %of.thread = mul i64 %each.thread, %thread
  %further = add i64 %of.chunk, %of.thread
  %bytes = add i64 %into, %further
  %place.at = getelementptr i8, ptr %data, i64 %bytes
  %placed.at = getelementptr ptr, ptr %places, i64 %q
  store ptr %place.at, ptr %placed.at
  %moved.at = getelementptr ptr, ptr %memories, i64 %q
  %moved = load ptr, ptr %moved.at
  %set = call i32 @dnnl_memory_set_data_handle(ptr %moved, ptr %place.at)
  %status.q.next = or i32 %status.q, %set
  %q.next = add i64 %q, 1
  br label %place
step:
  %s = phi i64 [ 0, %place ], [ %s.next, %execute ], [ %s.next, %finish ]
  %status.s = phi i32 [ %status.q, %place ], [ %status.s.next, %execute ], [ %status.s, %finish ]
  %s.more = icmp slt i64 %s, %steps
  br i1 %s.more, label %fill, label %wait
fill:
  %s.word = mul i64 %s, 11
  %s.row = getelementptr i64, ptr %step.table, i64 %s.word
  %primitives = call ptr @pointer(ptr %s.row, i64 0)
  %s.next = add i64 %s, 1
  %is.function = icmp eq ptr %primitives, null
  br i1 %is.function, label %finish, label %prepare.step
finish:
  %function = call ptr @pointer(ptr %s.row, i64 8)
  %first.place = call i64 @word(ptr %s.row, i64 16)
  %planes = call i64 @word(ptr %s.row, i64 24)
  %groups = call i64 @word(ptr %s.row, i64 32)
  %height = call i64 @word(ptr %s.row, i64 40)
  %width = call i64 @word(ptr %s.row, i64 48)
  %rows = call i64 @word(ptr %s.row, i64 56)
  %columns = call i64 @word(ptr %s.row, i64 64)
  %taken.places = getelementptr ptr, ptr %places, i64 %first.place
  call void %function(ptr %taken.places, i64 %planes, i64 %groups, i64 %height, i64 %width, i64 %rows, i64 %columns)
  br label %step
prepare.step:
  %stride = call i64 @word(ptr %s.row, i64 8)
  %skipped = mul i64 %stride, %number
  %primitive = call ptr @pointer(ptr %primitives, i64 %skipped)
  %arity = call i64 @word(ptr %s.row, i64 16)
  br label %argument
argument:
  %a = phi i64 [ 0, %prepare.step ], [ %a.next, %put ]
  %a.more = icmp slt i64 %a, %arity
  br i1 %a.more, label %put, label %execute
put:
  %a.word = mul i64 %a, 2
  %a.first = add i64 %a.word, 3
  %a.row = getelementptr i64, ptr %s.row, i64 %a.first
  %what = call i64 @word(ptr %a.row, i64 0)
  %source.number = call i64 @word(ptr %a.row, i64 8)
  %source.at = getelementptr ptr, ptr %memories, i64 %source.number
  %source = load ptr, ptr %source.at
  %what.at = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 %a, i32 0
  %what.short = trunc i64 %what to i32
  store i32 %what.short, ptr %what.at
  %given.at = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 %a, i32 1
  store ptr %source, ptr %given.at
  %a.next = add i64 %a, 1
  br label %argument
execute:
  %arity.short = trunc i64 %arity to i32
  %ran = call i32 @dnnl_primitive_execute(ptr %primitive, ptr %stream, i32 %arity.short, ptr %given)
  %status.s.next = or i32 %status.s, %ran
  br label %step
wait:
  %waited = call i32 @dnnl_stream_wait(ptr %stream)
  %status = or i32 %status.s, %waited
  %noted = atomicrmw or ptr %failed, i32 %status seq_cst
  %counted = atomicrmw add ptr %done, i64 1 seq_cst
  br label %next
next:
  %following = atomicrmw add ptr %job, i64 1 seq_cst
  %more = icmp slt i64 %following, %chunks
  br i1 %more, label %chunk, label %free
free:
  %f = phi i64 [ 0, %next ], [ %f.next, %destroy ]
  %f.more = icmp slt i64 %f, %count
  br i1 %f.more, label %destroy, label %end
destroy:
  %freed.at = getelementptr ptr, ptr %memories, i64 %f
  %freed = load ptr, ptr %freed.at
  %freed.status = call i32 @dnnl_memory_destroy(ptr %freed)
  %f.next = add i64 %f, 1
  br label %free
end:
  %gone = call i32 @dnnl_stream_destroy(ptr %stream)
  call void @omp_set_num_threads(i32 %before)
  br label %out
out:
  ret void
}
