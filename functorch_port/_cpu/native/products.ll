; A handler of XLA's foreign function interface that multiplies two small matrices on the thread that calls it, besides ffi.ll
; and pool.ll. A call's words are rows, inner dimension and columns; whether the first matrix is given as its transpose, and
; whether the second one is.
;
; The result is computed in panels, of as many columns as a vector has floats. products.py adds
;     @lanes        how many that are
;     @rows.N       void (ptr a, i64 row, i64 step, ptr panel, i64 stride, ptr out, i64 columns, i64 inner, i64 wide): N rows
;                   of a panel of so many columns, for N of 1, 2, 4 and 8. In floats it is from a row to the next one of the
;                   first matrix `row`, of the second one's panel `stride` and of the result `columns`; and `step` from a
;                   column to the next one of the first matrix
;     @transposed   void (ptr b, i64 inner, i64 wide, ptr panel): a panel, of so many rows of the second matrix's transpose

define internal void @work(ptr %job) {
  ret void
}

define internal ptr @answer(ptr %frame, ptr %none) {
entry:
  %data = call ptr @words(ptr %frame)
  %args = call ptr @pointer(ptr %frame, i64 72)
  %rets = call ptr @pointer(ptr %frame, i64 112)
  %a = call ptr @array(ptr %args, i64 0)
  %b = call ptr @array(ptr %args, i64 1)
  %out = call ptr @array(ptr %rets, i64 0)
  %room = call ptr @array(ptr %rets, i64 1)
  %rows = call i64 @word(ptr %data, i64 0)
  %inner = call i64 @word(ptr %data, i64 8)
  %columns = call i64 @word(ptr %data, i64 16)
  %left.word = call i64 @word(ptr %data, i64 24)
  %left = trunc i64 %left.word to i1
  %right.word = call i64 @word(ptr %data, i64 32)
  %right = trunc i64 %right.word to i1
  %lanes = load i64, ptr @lanes
  br label %panel
panel:
  %column = phi i64 [ 0, %entry ], [ %column.next, %next ]
  %left.over = sub i64 %columns, %column
  %wide = call i64 @llvm.smin.i64(i64 %left.over, i64 %lanes)
  %out.panel = getelementptr float, ptr %out, i64 %column
  br i1 %right, label %transpose, label %there
transpose:
  %b.skipped = mul i64 %column, %inner
  %b.rows = getelementptr float, ptr %b, i64 %b.skipped
  call void @transposed(ptr %b.rows, i64 %inner, i64 %wide, ptr %room)
  br label %multiply
there:
  %b.panel = getelementptr float, ptr %b, i64 %column
  br label %multiply
multiply:
  %at = phi ptr [ %room, %transpose ], [ %b.panel, %there ]
  %stride = phi i64 [ %lanes, %transpose ], [ %columns, %there ]
  br i1 %left, label %by.columns, label %by.rows
by.columns:
  call void @all(ptr %a, i64 1, i64 %rows, ptr %at, i64 %stride, ptr %out.panel, i64 %columns, i64 %inner, i64 %wide, i64 %rows)
  br label %next
by.rows:
  call void @all(ptr %a, i64 %inner, i64 1, ptr %at, i64 %stride, ptr %out.panel, i64 %columns, i64 %inner, i64 %wide, i64 %rows)
  br label %next
next:
  %column.next = add i64 %column, %lanes
  %more = icmp slt i64 %column.next, %columns
  br i1 %more, label %panel, label %end
end:
  ret ptr null
}
