; Sharing a call's work among the threads of XLA's pool, besides ffi.ll, after xla/ffi/api/c_api.h, version 0.3. The work is
; cut into chunks, and the file beside this one defines
;     @work         void (ptr job): take chunks, by adding to `next`, and do them, until there are none
;
; A job is
;     i64 next      the first chunk that nobody has taken
;     i64 done      how many chunks are done
;     i64 holders   how many threads may still look at the job; the last one frees it
;     i64 chunks    how many there are
;     i64 rest[]    what else @work wants to know

%job = type { i64, i64, i64, i64, [0 x i64] }

declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @sched_yield()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; A job with room for so many words of the rest, which the caller fills before it shares the job.
define internal ptr @new_job(i64 %words) {
  %all = add i64 %words, 4
  %bytes = mul i64 %all, 8
  %job = call ptr @malloc(i64 %bytes)
  ret ptr %job
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

; Share a job of so many chunks among so many threads, this one included: invite the others, work, and wait until all of it
; is done. The wait is for chunks that other threads are working on, never for a thread to begin: so it ends however busy
; the pool is.
define internal void @share(ptr %frame, ptr %job, i64 %chunks, i64 %hands) {
entry:
  %start = insertvalue { i64, i64, i64, i64 } { i64 0, i64 0, i64 0, i64 0 }, i64 %hands, 2
  %whole.start = insertvalue { i64, i64, i64, i64 } %start, i64 %chunks, 3
  store { i64, i64, i64, i64 } %whole.start, ptr %job
  %done = getelementptr %job, ptr %job, i64 0, i32 1
  br label %more
more:
  %invited = phi i64 [ 1, %entry ], [ %next, %one ]
  %missing = icmp slt i64 %invited, %hands
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
