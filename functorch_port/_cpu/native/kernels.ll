; What all kernels of kernels.py and rows.py have around their loops, besides ffi.ll and pool.ll: a handler of XLA's foreign
; function interface that shares a call's elements among the threads of XLA's pool.
;
; A call updates several tensors, each of some arrays of one size. A handler's data is what kernels.py has made, words of 64
; bits:
;     loop          void (ptr pointers, i64 start, i64 end, i64 length): the update of a tensor's elements from start to before
;                   end, which are whole rows of that length
;     count         how many pointers that takes
;     first         how many arguments come before those of the first tensor
;     width         how many arguments there are for each tensor
;     chunk         how many elements a thread takes at a time, about
;     by.rows       whether an argument's last dimension is the length of a row; else it is 1
;     sources[]     where each pointer comes from, four words: whether an argument or a result, its number for the first
;                   tensor, by how much that grows from tensor to tensor, and for an array that holds the elements of all
;                   tensors, one after the other, the bytes of an element
;
; The rest of a job is
;     ptr data
;     i64 tensors   how many tensors
;     i64 length    of a row
;     i64 chunk     how many elements a thread takes at a time: whole rows
;     i64 rows[]    for every tensor: its first chunk, its size, and the loop's pointers

; A tensor's row of the job.
define internal ptr @row(ptr %job, i64 %tensor) alwaysinline {
  %data = call ptr @pointer(ptr %job, i64 32)
  %count = call i64 @word(ptr %data, i64 8)
  %width = add i64 %count, 2
  %skipped = mul i64 %tensor, %width
  %at = add i64 %skipped, 4
  %row = getelementptr %job, ptr %job, i64 0, i32 4, i64 %at
  ret ptr %row
}

; Take chunks until there are none. Their numbers grow, so the tensor they belong to is looked for from the last one on.
define internal void @work(ptr %job) {
entry:
  %done = getelementptr %job, ptr %job, i64 0, i32 1
  %chunks = call i64 @word(ptr %job, i64 24)
  br label %take
take:
  %last = phi i64 [ 0, %entry ], [ %tensor, %do ]
  %number = atomicrmw add ptr %job, i64 1 seq_cst
  %left = icmp slt i64 %number, %chunks
  br i1 %left, label %find, label %out
find:
  %data = call ptr @pointer(ptr %job, i64 32)
  %loop = call ptr @pointer(ptr %data, i64 0)
  %tensors = call i64 @word(ptr %job, i64 40)
  %length = call i64 @word(ptr %job, i64 48)
  %chunk = call i64 @word(ptr %job, i64 56)
  br label %look
look:
  %tensor = phi i64 [ %last, %find ], [ %after, %next ]
  %after = add i64 %tensor, 1
  %more = icmp slt i64 %after, %tensors
  br i1 %more, label %compare, label %do
compare:
  %row.after = call ptr @row(ptr %job, i64 %after)
  %first.after = load i64, ptr %row.after
  %passed = icmp sle i64 %first.after, %number
  br i1 %passed, label %next, label %do
next:
  br label %look
do:
  %row = call ptr @row(ptr %job, i64 %tensor)
  %first = load i64, ptr %row
  %size = call i64 @word(ptr %row, i64 8)
  %pointers = getelementptr i64, ptr %row, i64 2
  %within = sub i64 %number, %first
  %start = mul i64 %within, %chunk
  %upto = add i64 %start, %chunk
  %end = call i64 @llvm.smin.i64(i64 %upto, i64 %size)
  call void %loop(ptr %pointers, i64 %start, i64 %end, i64 %length)
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
define internal i64 @gather(ptr %frame, ptr %data, ptr %job, i64 %tensor, i64 %first, i64 %before) {
entry:
  %args = call ptr @pointer(ptr %frame, i64 72)
  %rets = call ptr @pointer(ptr %frame, i64 112)
  %count = call i64 @word(ptr %data, i64 8)
  %row = call ptr @row(ptr %job, i64 %tensor)
  store i64 %first, ptr %row
  %common = call i64 @word(ptr %data, i64 16)
  %width = call i64 @word(ptr %data, i64 24)
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
  %sources = getelementptr i64, ptr %data, i64 6
  %source.at = getelementptr { i64, i64, i64, i64 }, ptr %sources, i64 %i
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
  %array = call ptr @pointer(ptr %buffer, i64 24)
  %skipped = mul i64 %before, %bytes
  %mine = getelementptr i8, ptr %array, i64 %skipped
  %place = getelementptr ptr, ptr %pointers, i64 %i
  store ptr %mine, ptr %place
  %next = add i64 %i, 1
  br label %head
out:
  ret i64 %size
}

; How many threads a job is worth: one for every full chunk of its elements, at least one, no more than there are.
define internal i64 @worth(ptr %frame, i64 %elements, i64 %chunk) {
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

; The length of the rows of an argument, of which the list is.
define internal i64 @row_length(ptr %args, i64 %which) {
  %buffer.at = getelementptr ptr, ptr %args, i64 %which
  %buffer = load ptr, ptr %buffer.at
  %rank = call i64 @word(ptr %buffer, i64 32)
  %dims = call ptr @pointer(ptr %buffer, i64 40)
  %last = add i64 %rank, -1
  %dim.at = getelementptr i64, ptr %dims, i64 %last
  %dim = load i64, ptr %dim.at
  ret i64 %dim
}

; What a call does: no error, as a null pointer.
define internal ptr @answer(ptr %frame, ptr %data) {
entry:
  %given = call ptr @pointer(ptr %frame, i64 72)
  %args = call i64 @word(ptr %frame, i64 56)
  %count = call i64 @word(ptr %data, i64 8)
  %common = call i64 @word(ptr %data, i64 16)
  %width = call i64 @word(ptr %data, i64 24)
  %about = call i64 @word(ptr %data, i64 32)
  %by.rows.word = call i64 @word(ptr %data, i64 40)
  %by.rows = trunc i64 %by.rows.word to i1
  br i1 %by.rows, label %ask, label %run
ask:
  %asked = call i64 @row_length(ptr %given, i64 %common)
  br label %run
run:
  %length = phi i64 [ 1, %entry ], [ %asked, %ask ]
  %rows.about = sdiv i64 %about, %length
  %rows = call i64 @llvm.smax.i64(i64 %rows.about, i64 1)
  %chunk = mul i64 %rows, %length
  %apart = sub i64 %args, %common
  %tensors = sdiv i64 %apart, %width
  %words.each = add i64 %count, 2
  %table = mul i64 %tensors, %words.each
  %words = add i64 %table, 4
  %job = call ptr @new_job(i64 %words)
  %rest = getelementptr %job, ptr %job, i64 0, i32 4
  store ptr %data, ptr %rest
  %tensors.at = getelementptr i64, ptr %rest, i64 1
  store i64 %tensors, ptr %tensors.at
  %length.at = getelementptr i64, ptr %rest, i64 2
  store i64 %length, ptr %length.at
  %chunk.at = getelementptr i64, ptr %rest, i64 3
  store i64 %chunk, ptr %chunk.at
  %round = add i64 %chunk, -1
  br label %head
head:
  %tensor = phi i64 [ 0, %run ], [ %tensor.next, %body ]
  %chunks = phi i64 [ 0, %run ], [ %chunks.next, %body ]
  %elements = phi i64 [ 0, %run ], [ %elements.next, %body ]
  %more = icmp slt i64 %tensor, %tensors
  br i1 %more, label %body, label %begin
body:
  %size = call i64 @gather(ptr %frame, ptr %data, ptr %job, i64 %tensor, i64 %chunks, i64 %elements)
  %up = add i64 %size, %round
  %mine = sdiv i64 %up, %chunk
  %chunks.next = add i64 %chunks, %mine
  %elements.next = add i64 %elements, %size
  %tensor.next = add i64 %tensor, 1
  br label %head
begin:
  %hands = call i64 @worth(ptr %frame, i64 %elements, i64 %chunk)
  call void @share(ptr %frame, ptr %job, i64 %chunks, i64 %hands)
  ret ptr null
}
