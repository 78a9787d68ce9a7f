; What XLA's interface has for a handler (XLA_FFI_Api of xla/ffi/api/c_api.h, version 0.3), as far as handlers use it, with
; threads of our own: frames.py calls handlers with it. A thread of Python would wait for the interpreter's lock between one
; task and the next, and have the caller wait for it.

%task = type { ptr, ptr }

; a pthread_mutex_t and a pthread_cond_t, which take 64 bytes or less
@lock = internal global [16 x i64] zeroinitializer
@more = internal global [16 x i64] zeroinitializer
; how many tasks were given and taken, of which the last 64 are here, and how many threads there are
@given = internal global i64 0
@taken = internal global i64 0
@tasks = internal global [64 x %task] zeroinitializer
@threads = internal global i64 0
; by their places in the table
@api = internal global [19 x ptr] [
  ptr null, ptr null, ptr null, ptr null, ptr null, ptr null, ptr @new_error, ptr null, ptr @forget_error, ptr null,
  ptr null, ptr null, ptr null, ptr null, ptr null, ptr null, ptr null, ptr @schedule, ptr @count]

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)

; Start so many threads; returns the table.
define ptr @start(i64 %count) {
entry:
  %made = alloca i64
  %threads = add i64 %count, 1
  store i64 %threads, ptr @threads
  %lock = call i32 @pthread_mutex_init(ptr @lock, ptr null)
  %more = call i32 @pthread_cond_init(ptr @more, ptr null)
  br label %check
check:
  %k = phi i64 [ 0, %entry ], [ %next, %start ], [ %next, %detach ]
  %missing = icmp slt i64 %k, %count
  br i1 %missing, label %start, label %out
start:
  %next = add i64 %k, 1
  %failed = call i32 @pthread_create(ptr %made, ptr null, ptr @run, ptr null)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %detach, label %check
detach:
  %thread = load i64, ptr %made
  %detached = call i32 @pthread_detach(i64 %thread)
  br label %check
out:
  ret ptr @api
}

; What a thread does: take tasks for ever.
define internal ptr @run(ptr %nothing) {
  br label %begin
begin:
  %locked = call i32 @pthread_mutex_lock(ptr @lock)
  br label %look
look:
  %taken = load i64, ptr @taken
  %given = load i64, ptr @given
  %none = icmp eq i64 %taken, %given
  br i1 %none, label %wait, label %take
wait:
  %waited = call i32 @pthread_cond_wait(ptr @more, ptr @lock)
  br label %look
take:
  %now = add i64 %taken, 1
  store i64 %now, ptr @taken
  %at = and i64 %taken, 63
  %place = getelementptr [64 x %task], ptr @tasks, i64 0, i64 %at
  %task = load %task, ptr %place
  %unlocked = call i32 @pthread_mutex_unlock(ptr @lock)
  %work = extractvalue %task %task, 0
  %data = extractvalue %task %task, 1
  call void %work(ptr %data)
  br label %begin
}

; XLA_FFI_ThreadPool_Schedule. Where 64 tasks wait, it fails.
define internal ptr @schedule(ptr %call) {
  %given.task = getelementptr i8, ptr %call, i64 24
  %task = load %task, ptr %given.task
  %locked = call i32 @pthread_mutex_lock(ptr @lock)
  %given = load i64, ptr @given
  %taken = load i64, ptr @taken
  %waiting = sub i64 %given, %taken
  %full = icmp eq i64 %waiting, 64
  br i1 %full, label %refuse, label %take
refuse:
  %opened = call i32 @pthread_mutex_unlock(ptr @lock)
  ret ptr inttoptr (i64 1 to ptr)
take:
  %at = and i64 %given, 63
  %place = getelementptr [64 x %task], ptr @tasks, i64 0, i64 %at
  store %task %task, ptr %place
  %now = add i64 %given, 1
  store i64 %now, ptr @given
  %unlocked = call i32 @pthread_mutex_unlock(ptr @lock)
  %told = call i32 @pthread_cond_signal(ptr @more)
  ret ptr null
}

; XLA_FFI_ThreadPool_NumThreads.
define internal ptr @count(ptr %call) {
  %answer.at = getelementptr i8, ptr %call, i64 24
  %answer = load ptr, ptr %answer.at
  %threads = load i64, ptr @threads
  store i64 %threads, ptr %answer
  ret ptr null
}

; XLA_FFI_Error_Create: an error is only told from none.
define internal ptr @new_error(ptr %call) {
  ret ptr inttoptr (i64 1 to ptr)
}

define internal void @forget_error(ptr %call) {
  ret void
}
