; A handler of XLA's foreign function interface that goes through the steps of a recurrent layer, besides ffi.ll and pool.ll.
; The rows of the batch do not depend on each other, so each thread of XLA's pool takes some of them through all steps, without
; waiting for another: oneDNN's product of the rows with the weights, on one thread, then what happens to each unit.
; A handler's data is the plan, words of 64 bits:
;     the engine; how many chunks; steps, rows of the batch, units; whether the last step comes first; how many arguments come
;     before the first states; how many states; how many results come before the last states; numbers in a row of what is
;     multiplied, and of the product; the descriptor of the weights; how many memories the primitive takes;
;     a function, void (ptr args, ptr rets, i64 at, i64 rows, i64 units, ptr states, ptr product): what happens to units in
;     one step, to so many rows from `at` on, of the rows of all steps;
;     whether the product comes before that, of the first state; if not, it is of the first result;
;     for each chunk: its first row, how many rows; the primitive; descriptors of what is multiplied, of the product, of the
;     primitive's own room; bytes into the last result, where the states are, the product, and that room.

%exec.arg = type { i32, ptr }

declare i32 @dnnl_stream_create(ptr, ptr, i32)
declare i32 @dnnl_stream_wait(ptr)
declare i32 @dnnl_stream_destroy(ptr)
declare i32 @dnnl_memory_create(ptr, ptr, ptr, ptr)
declare i32 @dnnl_memory_set_data_handle(ptr, ptr)
declare i32 @dnnl_memory_destroy(ptr)
declare i32 @dnnl_primitive_execute(ptr, ptr, i32, ptr)
declare void @omp_set_num_threads(i32)
declare i32 @omp_get_max_threads()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal ptr @answer(ptr %frame, ptr %plan) {
  %failed = alloca i32
  store i32 0, ptr %failed
  %job = call ptr @new_job(i64 3)
  %plan.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 0
  store ptr %plan, ptr %plan.at
  %frame.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 1
  store ptr %frame, ptr %frame.at
  %failed.at = getelementptr %job, ptr %job, i64 0, i32 4, i64 2
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
  %error = call ptr @error_of(ptr %frame, i32 %status)
  ret ptr %error
}

; Take chunks until there are none. Until a thread has taken one the call may be over, and only the job itself be there.
define internal void @work(ptr %job) {
entry:
  %done = getelementptr %job, ptr %job, i64 0, i32 1
  %chunks.at = getelementptr %job, ptr %job, i64 0, i32 3
  %chunks = load i64, ptr %chunks.at
  br label %take
take:
  %number = atomicrmw add ptr %job, i64 1 seq_cst
  %left = icmp slt i64 %number, %chunks
  br i1 %left, label %do, label %out
do:
  %plan = call ptr @pointer(ptr %job, i64 32)
  %frame = call ptr @pointer(ptr %job, i64 40)
  %failed = call ptr @pointer(ptr %job, i64 48)
  %before = call i32 @omp_get_max_threads()
  call void @omp_set_num_threads(i32 1)
  %status = call i32 @go_through(ptr %frame, ptr %plan, i64 %number)
  call void @omp_set_num_threads(i32 %before)
  %noted = atomicrmw or ptr %failed, i32 %status seq_cst
  %counted = atomicrmw add ptr %done, i64 1 seq_cst
  br label %take
out:
  ret void
}

; Take the rows of a chunk through all steps.
define internal i32 @go_through(ptr %frame, ptr %plan, i64 %number) {
entry:
  %args = call ptr @pointer(ptr %frame, i64 72)
  %rets = call ptr @pointer(ptr %frame, i64 112)
  %ret.count = call i64 @word(ptr %frame, i64 96)
  %engine = call ptr @pointer(ptr %plan, i64 0)
  %steps = call i64 @word(ptr %plan, i64 16)
  %batch = call i64 @word(ptr %plan, i64 24)
  %units = call i64 @word(ptr %plan, i64 32)
  %reverse.word = call i64 @word(ptr %plan, i64 40)
  %reverse = trunc i64 %reverse.word to i1
  %args.before = call i64 @word(ptr %plan, i64 48)
  %states.count = call i64 @word(ptr %plan, i64 56)
  %rets.before = call i64 @word(ptr %plan, i64 64)
  %source.width = call i64 @word(ptr %plan, i64 72)
  %product.width = call i64 @word(ptr %plan, i64 80)
  %weights.descriptor = call ptr @pointer(ptr %plan, i64 88)
  %arity.word = call i64 @word(ptr %plan, i64 96)
  %arity = trunc i64 %arity.word to i32
  %chunk.word = mul i64 %number, 9
  %chunk.first = add i64 %chunk.word, 15
  %chunk = getelementptr i64, ptr %plan, i64 %chunk.first
  %start = call i64 @word(ptr %chunk, i64 0)
  %rows = call i64 @word(ptr %chunk, i64 8)
  %primitive = call ptr @pointer(ptr %chunk, i64 16)
  %source.descriptor = call ptr @pointer(ptr %chunk, i64 24)
  %product.descriptor = call ptr @pointer(ptr %chunk, i64 32)
  %room.descriptor = call ptr @pointer(ptr %chunk, i64 40)
  %states.offset = call i64 @word(ptr %chunk, i64 48)
  %product.offset = call i64 @word(ptr %chunk, i64 56)
  %room.offset = call i64 @word(ptr %chunk, i64 64)
  %scratch.number = add i64 %ret.count, -1
  %scratch = call ptr @array(ptr %rets, i64 %scratch.number)
  %states = getelementptr i8, ptr %scratch, i64 %states.offset
  %product = getelementptr i8, ptr %scratch, i64 %product.offset
  %room = getelementptr i8, ptr %scratch, i64 %room.offset
  %weights.number = add i64 %args.before, %states.count
  %weights = call ptr @array(ptr %args, i64 %weights.number)
  %stream.at = alloca ptr
  %s0 = call i32 @dnnl_stream_create(ptr %stream.at, ptr %engine, i32 1)
  %stream = load ptr, ptr %stream.at
  %given = alloca [4 x %exec.arg]
  %source.at = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 0, i32 1
  %s1 = call i32 @dnnl_memory_create(ptr %source.at, ptr %source.descriptor, ptr %engine, ptr %states)
  %weights.at = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 1, i32 1
  %s2 = call i32 @dnnl_memory_create(ptr %weights.at, ptr %weights.descriptor, ptr %engine, ptr %weights)
  %product.at = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 2, i32 1
  %s3 = call i32 @dnnl_memory_create(ptr %product.at, ptr %product.descriptor, ptr %engine, ptr %product)
  %room.at = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 3, i32 1
  %s4 = call i32 @dnnl_memory_create(ptr %room.at, ptr %room.descriptor, ptr %engine, ptr %room)
  %source.role = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 0, i32 0
  store i32 1, ptr %source.role
  %weights.role = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 1, i32 0
  store i32 33, ptr %weights.role
  %product.role = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 2, i32 0
  store i32 17, ptr %product.role
  %room.role = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 3, i32 0
  store i32 80, ptr %room.role
  %source = load ptr, ptr %source.at
  %s01 = or i32 %s0, %s1
  %s23 = or i32 %s2, %s3
  %s0123 = or i32 %s01, %s23
  %made = or i32 %s0123, %s4
  %plane = mul i64 %rows, %units
  %state.bytes = mul i64 %plane, 4
  %state.skipped = mul i64 %start, %units
  br label %first.states
first.states:
  %i = phi i64 [ 0, %entry ], [ %i.next, %copy.in ]
  %i.more = icmp slt i64 %i, %states.count
  br i1 %i.more, label %copy.in, label %clear
copy.in:
  %given.number = add i64 %args.before, %i
  %given.state = call ptr @array(ptr %args, i64 %given.number)
  %given.rows = getelementptr float, ptr %given.state, i64 %state.skipped
  %in.skipped = mul i64 %i, %plane
  %in = getelementptr float, ptr %states, i64 %in.skipped
  call void @llvm.memcpy.p0.p0.i64(ptr %in, ptr %given.rows, i64 %state.bytes, i1 false)
  %i.next = add i64 %i, 1
  br label %first.states
clear:
  %product.numbers = mul i64 %rows, %product.width
  %product.bytes = mul i64 %product.numbers, 4
  call void @llvm.memset.p0.i64(ptr %product, i8 0, i64 %product.bytes, i1 false)
  %function = call ptr @pointer(ptr %plan, i64 104)
  %first.word = call i64 @word(ptr %plan, i64 112)
  %first = trunc i64 %first.word to i1
  %last.step = add i64 %steps, -1
  br label %step
step:
  %k = phi i64 [ 0, %clear ], [ %k.next, %stepped ]
  %status = phi i32 [ %made, %clear ], [ %status.next, %stepped ]
  %k.more = icmp slt i64 %k, %steps
  br i1 %k.more, label %begin, label %last.states
begin:
  %from.end = sub i64 %last.step, %k
  %t = select i1 %reverse, i64 %from.end, i64 %k
  %rows.before = mul i64 %t, %batch
  %at = add i64 %rows.before, %start
  br i1 %first, label %multiply.state, label %units.only
multiply.state:
  %ran.first = call i32 @dnnl_primitive_execute(ptr %primitive, ptr %stream, i32 %arity, ptr %given)
  call void %function(ptr %args, ptr %rets, i64 %at, i64 %rows, i64 %units, ptr %states, ptr %product)
  br label %stepped
units.only:
  call void %function(ptr %args, ptr %rets, i64 %at, i64 %rows, i64 %units, ptr %states, ptr %product)
  %result = call ptr @array(ptr %rets, i64 0)
  %numbers = mul i64 %at, %source.width
  %multiplied = getelementptr float, ptr %result, i64 %numbers
  %set = call i32 @dnnl_memory_set_data_handle(ptr %source, ptr %multiplied)
  %ran.then = call i32 @dnnl_primitive_execute(ptr %primitive, ptr %stream, i32 %arity, ptr %given)
  %then = or i32 %set, %ran.then
  br label %stepped
stepped:
  %ran = phi i32 [ %ran.first, %multiply.state ], [ %then, %units.only ]
  %status.next = or i32 %status, %ran
  %k.next = add i64 %k, 1
  br label %step
last.states:
  %o = phi i64 [ 0, %step ], [ %o.next, %copy.out ]
  %o.more = icmp slt i64 %o, %states.count
  br i1 %o.more, label %copy.out, label %last.product
copy.out:
  %wanted.number = add i64 %rets.before, %o
  %wanted.state = call ptr @array(ptr %rets, i64 %wanted.number)
  %wanted.rows = getelementptr float, ptr %wanted.state, i64 %state.skipped
  %out.skipped = mul i64 %o, %plane
  %out = getelementptr float, ptr %states, i64 %out.skipped
  call void @llvm.memcpy.p0.p0.i64(ptr %wanted.rows, ptr %out, i64 %state.bytes, i1 false)
  %o.next = add i64 %o, 1
  br label %last.states
last.product:
  br i1 %first, label %free, label %copy.product
copy.product:
  %product.number = add i64 %rets.before, %states.count
  %wanted.product = call ptr @array(ptr %rets, i64 %product.number)
  %product.skipped = mul i64 %start, %product.width
  %wanted.product.rows = getelementptr float, ptr %wanted.product, i64 %product.skipped
  call void @llvm.memcpy.p0.p0.i64(ptr %wanted.product.rows, ptr %product, i64 %product.bytes, i1 false)
  br label %free
free:
  %f = phi i64 [ 0, %last.product ], [ 0, %copy.product ], [ %f.next, %destroy ]
  %f.more = icmp slt i64 %f, 4
  br i1 %f.more, label %destroy, label %end
destroy:
  %freed.at = getelementptr [4 x %exec.arg], ptr %given, i64 0, i64 %f, i32 1
  %freed = load ptr, ptr %freed.at
  %freed.status = call i32 @dnnl_memory_destroy(ptr %freed)
  %f.next = add i64 %f, 1
  br label %free
end:
  %waited = call i32 @dnnl_stream_wait(ptr %stream)
  %gone = call i32 @dnnl_stream_destroy(ptr %stream)
  %all = or i32 %status, %waited
  ret i32 %all
}
