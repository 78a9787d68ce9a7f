; A handler of XLA's foreign function interface that runs primitives of oneDNN, one after the other, or its product of
; two matrices; besides ffi.ll. A handler's data is the plan that onednn.py has made, words of 64 bits:
;     the engine; how many memories; how many steps;
;     for each memory: its descriptor, whether it is a result, the number of the argument or result, bytes into it;
;     for each step: its primitive, how many memories it takes, and four times what one is to it and its number;
; or of a product:
;     0; rows, columns and inner dimension; the length of the rows that the second matrix lies in; "T", if it lies there
;     as its transpose, or "N".

%exec.arg = type { i32, ptr }

declare i32 @dnnl_stream_create(ptr, ptr, i32)
declare i32 @dnnl_stream_wait(ptr)
declare i32 @dnnl_stream_destroy(ptr)
declare i32 @dnnl_memory_create(ptr, ptr, ptr, ptr)
declare i32 @dnnl_memory_destroy(ptr)
declare i32 @dnnl_primitive_execute(ptr, ptr, i32, ptr)
declare i32 @dnnl_sgemm(i8 signext, i8 signext, i64, i64, i64, float, ptr, i64, ptr, i64, float, ptr, i64)

@failed = internal constant [14 x i8] c"oneDNN failed\00"

; XLA_FFI_Error_Create, of an internal error.
define internal ptr @fail(ptr %frame) {
  %api = call ptr @pointer(ptr %frame, i64 16)
  %create = call ptr @pointer(ptr %api, i64 48)
  %call = alloca { i64, ptr, ptr, i32 }
  store { i64, ptr, ptr, i32 } { i64 32, ptr null, ptr @failed, i32 13 }, ptr %call
  %error = call ptr %create(ptr %call)
  ret ptr %error
}

define internal ptr @answer(ptr %frame, ptr %plan) {
  %engine = call ptr @pointer(ptr %plan, i64 0)
  %has.steps = icmp ne ptr %engine, null
  br i1 %has.steps, label %steps, label %product
steps:
  %run.status = call i32 @run(ptr %frame, ptr %plan)
  br label %end
product:
  %multiply.status = call i32 @multiply(ptr %frame, ptr %plan)
  br label %end
end:
  %status = phi i32 [ %run.status, %steps ], [ %multiply.status, %product ]
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %good, label %bad
good:
  ret ptr null
bad:
  %error = call ptr @fail(ptr %frame)
  ret ptr %error
}

define internal ptr @array(ptr %list, i64 %which) {
  %buffer.at = getelementptr ptr, ptr %list, i64 %which
  %buffer = load ptr, ptr %buffer.at
  %data = call ptr @pointer(ptr %buffer, i64 24)
  ret ptr %data
}

define internal i32 @multiply(ptr %frame, ptr %plan) {
  %args = call ptr @pointer(ptr %frame, i64 72)
  %rets = call ptr @pointer(ptr %frame, i64 112)
  %a = call ptr @array(ptr %args, i64 0)
  %b = call ptr @array(ptr %args, i64 1)
  %out = call ptr @array(ptr %rets, i64 0)
  %rows = call i64 @word(ptr %plan, i64 8)
  %columns = call i64 @word(ptr %plan, i64 16)
  %inner = call i64 @word(ptr %plan, i64 24)
  %row = call i64 @word(ptr %plan, i64 32)
  %letter.word = call i64 @word(ptr %plan, i64 40)
  %letter = trunc i64 %letter.word to i8
  %status = call i32 @dnnl_sgemm(i8 signext 78, i8 signext %letter, i64 %rows, i64 %columns, i64 %inner, float 1.0, ptr %a, i64 %inner, ptr %b, i64 %row, float 0.0, ptr %out, i64 %columns)
  ret i32 %status
}

define internal i32 @run(ptr %frame, ptr %plan) {
entry:
  %stream.at = alloca ptr
  %memories = alloca [16 x ptr]
  %given = alloca [4 x %exec.arg]
  %args = call ptr @pointer(ptr %frame, i64 72)
  %rets = call ptr @pointer(ptr %frame, i64 112)
  %engine = call ptr @pointer(ptr %plan, i64 0)
  %count = call i64 @word(ptr %plan, i64 8)
  %steps = call i64 @word(ptr %plan, i64 16)
  %created = call i32 @dnnl_stream_create(ptr %stream.at, ptr %engine, i32 1)
  %stream = load ptr, ptr %stream.at
  %memory.table = getelementptr i64, ptr %plan, i64 3
  %memory.words = mul i64 %count, 4
  %step.table = getelementptr i64, ptr %memory.table, i64 %memory.words
  br label %memory
memory:
  %m = phi i64 [ 0, %entry ], [ %m.next, %make ]
  %status.m = phi i32 [ %created, %entry ], [ %status.m.next, %make ]
  %m.more = icmp slt i64 %m, %count
  br i1 %m.more, label %make, label %step
make:
  %m.word = mul i64 %m, 4
  %m.row = getelementptr i64, ptr %memory.table, i64 %m.word
  %descriptor = call ptr @pointer(ptr %m.row, i64 0)
  %is.result = call i64 @word(ptr %m.row, i64 8)
  %which = call i64 @word(ptr %m.row, i64 16)
  %bytes = call i64 @word(ptr %m.row, i64 24)
  %flag = trunc i64 %is.result to i1
  %list = select i1 %flag, ptr %rets, ptr %args
  %data = call ptr @array(ptr %list, i64 %which)
  %place = getelementptr i8, ptr %data, i64 %bytes
  %memory.at = getelementptr [16 x ptr], ptr %memories, i64 0, i64 %m
  %made = call i32 @dnnl_memory_create(ptr %memory.at, ptr %descriptor, ptr %engine, ptr %place)
  %status.m.next = or i32 %status.m, %made
  %m.next = add i64 %m, 1
  br label %memory
step:
  %s = phi i64 [ 0, %memory ], [ %s.next, %execute ]
  %status.s = phi i32 [ %status.m, %memory ], [ %status.s.next, %execute ]
  %s.more = icmp slt i64 %s, %steps
  br i1 %s.more, label %fill, label %wait
fill:
  %s.word = mul i64 %s, 10
  %s.row = getelementptr i64, ptr %step.table, i64 %s.word
  %primitive = call ptr @pointer(ptr %s.row, i64 0)
  %arity = call i64 @word(ptr %s.row, i64 8)
  br label %argument
argument:
  %a = phi i64 [ 0, %fill ], [ %a.next, %put ]
  %a.more = icmp slt i64 %a, %arity
  br i1 %a.more, label %put, label %execute
put:
  %a.word = mul i64 %a, 2
  %a.first = add i64 %a.word, 2
  %a.row = getelementptr i64, ptr %s.row, i64 %a.first
  %what = call i64 @word(ptr %a.row, i64 0)
  %number = call i64 @word(ptr %a.row, i64 8)
  %source.at = getelementptr [16 x ptr], ptr %memories, i64 0, i64 %number
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
  %done = call i32 @dnnl_primitive_execute(ptr %primitive, ptr %stream, i32 %arity.short, ptr %given)
  %status.s.next = or i32 %status.s, %done
  %s.next = add i64 %s, 1
  br label %step
wait:
  %waited = call i32 @dnnl_stream_wait(ptr %stream)
  %status = or i32 %status.s, %waited
  br label %free
free:
  %f = phi i64 [ 0, %wait ], [ %f.next, %destroy ]
  %f.more = icmp slt i64 %f, %count
  br i1 %f.more, label %destroy, label %end
destroy:
  %freed.at = getelementptr [16 x ptr], ptr %memories, i64 0, i64 %f
  %freed = load ptr, ptr %freed.at
  %freed.status = call i32 @dnnl_memory_destroy(ptr %freed)
  %f.next = add i64 %f, 1
  br label %free
end:
  %gone = call i32 @dnnl_stream_destroy(ptr %stream)
  ret i32 %status
}
