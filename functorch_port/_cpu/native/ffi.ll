; What every handler of XLA's foreign function interface needs, after xla/ffi/api/c_api.h, version 0.3.

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

; What every XLA_FFI_Handler does. `@answer` does a call's work, with what the handler has for it; the file beside this one
; defines it. The handlers themselves, `@handler.0` and so on, are written by ffi.py; frames.py calls this one.
define ptr @serve(ptr %frame, ptr %data) {
  %extension = call ptr @pointer(ptr %frame, i64 8)
  %registers = icmp ne ptr %extension, null
  br i1 %registers, label %metadata, label %work
metadata:
  call void @tell(ptr %extension)
  ret ptr null
work:
  %error = call ptr @answer(ptr %frame, ptr %data)
  ret ptr %error
}

; The words that a call is given: its only attribute, an array.
define internal ptr @words(ptr %frame) alwaysinline {
  %attributes = call ptr @pointer(ptr %frame, i64 160)
  %array = call ptr @pointer(ptr %attributes, i64 0)
  %data = call ptr @pointer(ptr %array, i64 16)
  ret ptr %data
}

; The data of an argument or result, of which the lists are.
define internal ptr @array(ptr %list, i64 %which) alwaysinline {
  %buffer.at = getelementptr ptr, ptr %list, i64 %which
  %buffer = load ptr, ptr %buffer.at
  %data = call ptr @pointer(ptr %buffer, i64 24)
  ret ptr %data
}

@failed = internal constant [14 x i8] c"oneDNN failed\00"

; XLA_FFI_Error_Create, of an internal error, if a status is not 0.
define internal ptr @error_of(ptr %frame, i32 %status) {
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %good, label %bad
good:
  ret ptr null
bad:
  %api = call ptr @pointer(ptr %frame, i64 16)
  %create = call ptr @pointer(ptr %api, i64 48)
  %call = alloca { i64, ptr, ptr, i32 }
  store { i64, ptr, ptr, i32 } { i64 32, ptr null, ptr @failed, i32 13 }, ptr %call
  %error = call ptr %create(ptr %call)
  ret ptr %error
}
