; What every kernel of kernels.py has around its loop, besides ffi.ll and pool.ll: a handler of XLA's foreign function
; interface that shares a call's elements among the threads of XLA's pool.
;
; A call updates several tensors, each of some arrays of one size. kernels.py adds
;     @loop         void (ptr pointers, i64 start, i64 end): the update of a tensor's elements from start to before end
;     @count        how many pointers that takes
;     @sources      where each comes from: {whether an argument or a result, its number for the first tensor, by how much
;                   that grows from tensor to tensor, and for an array that holds the elements of all tensors, one after
;                   the other, the bytes of an element}
;     @first        how many arguments come before those of the first tensor
;     @width        how many arguments there are for each tensor
;     @chunk        how many elements a thread takes at a time
;
; The rest of a job is
;     i64 tensors   how many tensors
;     i64 rows[]    for every tensor: its first chunk, its size, and the loop's pointers

; A tensor's row of the job.
define internal ptr @row(ptr %job, i64 %tensor) alwaysinline {
  %count = load i64, ptr @count
  %width = add i64 %count, 2
  %skipped = mul i64 %tensor, %width
  %at = add i64 %skipped, 1
  %row = getelementptr %job, ptr %job, i64 0, i32 4, i64 %at
  ret ptr %row
}

; Take chunks until there are none. Their numbers grow, so the tensor they belong to is looked for from the last one on.
define internal void @work(ptr %job) {
entry:
  %done = getelementptr %job, ptr %job, i64 0, i32 1
  %tensors.at = getelementptr %job, ptr %job, i64 0, i32 4
  %tensors = load i64, ptr %tensors.at
  %chunks.at = getelementptr %job, ptr %job, i64 0, i32 3
  %chunks = load i64, ptr %chunks.at
  %chunk = load i64, ptr @chunk
  br label %take
take:
  %last = phi i64 [ 0, %entry ], [ %tensor, %do ]
  %number = atomicrmw add ptr %job, i64 1 seq_cst
  %left = icmp slt i64 %number, %chunks
  br i1 %left, label %find, label %out
find:
  %tensor = phi i64 [ %last, %take ], [ %after, %next ]
  %after = add i64 %tensor, 1
  %more = icmp slt i64 %after, %tensors
  br i1 %more, label %compare, label %do
compare:
  %row.after = call ptr @row(ptr %job, i64 %after)
  %first.after = load i64, ptr %row.after
  %passed = icmp sle i64 %first.after, %number
  br i1 %passed, label %next, label %do
next:
  br label %find
do:
  %row = call ptr @row(ptr %job, i64 %tensor)
  %first = load i64, ptr %row
  %size = call i64 @word(ptr %row, i64 8)
  %pointers = getelementptr i64, ptr %row, i64 2
  %within = sub i64 %number, %first
  %start = mul i64 %within, %chunk
  %upto = add i64 %start, %chunk
  %end = call i64 @llvm.smin.i64(i64 %upto, i64 %size)
  call void @loop(ptr %pointers, i64 %start, i64 %end)
  %before = atomicrmw add ptr %done, i64 1 seq_cst
  br label %take
out:
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

; Write a tensor's row, of which the first chunk's number and the elements of the tensors before are given; returns how
; many elements it has.
define internal i64 @gather(ptr %frame, ptr %job, i64 %tensor, i64 %first, i64 %before) {
entry:
  %args = call ptr @pointer(ptr %frame, i64 72)
  %rets = call ptr @pointer(ptr %frame, i64 112)
  %count = load i64, ptr @count
  %row = call ptr @row(ptr %job, i64 %tensor)
  store i64 %first, ptr %row
  %common = load i64, ptr @first
  %width = load i64, ptr @width
  %args.before = mul i64 %tensor, %width
  %arg = add i64 %common, %args.before
  %arg.at = getelementptr ptr, ptr %args, i64 %arg
  %arg.buffer = load ptr, ptr %arg.at
  %size = call i64 @elements(ptr %arg.buffer)
  %size.at = getelementptr i64, ptr %row, i64 1
  store i64 %size, ptr %size.at
  %pointers = getelementptr i64, ptr %row, i64 2
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %out
body:
  %source.at = getelementptr { i64, i64, i64, i64 }, ptr @sources, i64 %i
  %source = load { i64, i64, i64, i64 }, ptr %source.at
  %what = extractvalue { i64, i64, i64, i64 } %source, 0
  %begin = extractvalue { i64, i64, i64, i64 } %source, 1
  %stride = extractvalue { i64, i64, i64, i64 } %source, 2
  %bytes = extractvalue { i64, i64, i64, i64 } %source, 3
  %is.arg = trunc i64 %what to i1
  %list = select i1 %is.arg, ptr %args, ptr %rets
  %shift = mul i64 %tensor, %stride
  %number = add i64 %begin, %shift
  %buffer.at = getelementptr ptr, ptr %list, i64 %number
  %buffer = load ptr, ptr %buffer.at
  %data = call ptr @pointer(ptr %buffer, i64 24)
  %skipped = mul i64 %before, %bytes
  %mine = getelementptr i8, ptr %data, i64 %skipped
  %place = getelementptr ptr, ptr %pointers, i64 %i
  store ptr %mine, ptr %place
  %next = add i64 %i, 1
  br label %head
out:
  ret i64 %size
}

; How many threads a job is worth: one for every full chunk of its elements, at least one, no more than there are.
define internal i64 @worth(ptr %frame, i64 %elements) {
  %chunk = load i64, ptr @chunk
  %full = sdiv i64 %elements, %chunk
  %several = icmp sgt i64 %full, 1
  br i1 %several, label %ask, label %alone
ask:
  %threads = call i64 @threads(ptr %frame)
  %fewer = call i64 @llvm.smin.i64(i64 %threads, i64 %full)
  %hands = call i64 @llvm.smax.i64(i64 %fewer, i64 1)
  ret i64 %hands
alone:
  ret i64 1
}

; What a call does, with no data: no error, as a null pointer.
define internal ptr @answer(ptr %frame, ptr %data) {
run:
  %args = call i64 @word(ptr %frame, i64 56)
  %common = load i64, ptr @first
  %width = load i64, ptr @width
  %apart = sub i64 %args, %common
  %tensors = sdiv i64 %apart, %width
  %count = load i64, ptr @count
  %words.each = add i64 %count, 2
  %table = mul i64 %tensors, %words.each
  %words = add i64 %table, 1
  %job = call ptr @new_job(i64 %words)
  %tensors.at = getelementptr %job, ptr %job, i64 0, i32 4
  store i64 %tensors, ptr %tensors.at
  %chunk = load i64, ptr @chunk
  %round = add i64 %chunk, -1
  br label %head
head:
  %tensor = phi i64 [ 0, %run ], [ %tensor.next, %body ]
  %chunks = phi i64 [ 0, %run ], [ %chunks.next, %body ]
  %elements = phi i64 [ 0, %run ], [ %elements.next, %body ]
  %more = icmp slt i64 %tensor, %tensors
  br i1 %more, label %body, label %begin
body:
  %size = call i64 @gather(ptr %frame, ptr %job, i64 %tensor, i64 %chunks, i64 %elements)
  %up = add i64 %size, %round
  %mine = sdiv i64 %up, %chunk
  %chunks.next = add i64 %chunks, %mine
  %elements.next = add i64 %elements, %size
  %tensor.next = add i64 %tensor, 1
  br label %head
begin:
  %hands = call i64 @worth(ptr %frame, i64 %elements)
  call void @share(ptr %frame, ptr %job, i64 %chunks, i64 %hands)
  ret ptr null
}
