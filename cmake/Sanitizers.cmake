# TROUPE_SANITIZE: empty, "address" (with undefined behaviour) or "thread". All C++ of ours is built
# with it; sanitizer_options.cpp, linked into every program, carries the options and suppressions.
set(TROUPE_SANITIZE "" CACHE STRING "Sanitizer: empty, address or thread")
set_property(CACHE TROUPE_SANITIZE PROPERTY STRINGS "" address thread)

add_library(troupe_sanitizer INTERFACE)
set(TROUPE_TEST_TIMEOUT_FACTOR 1)
if(TROUPE_SANITIZE STREQUAL "address")
  # vptr wants run-time type information that libtorch does not export.
  set(_flags -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
  set(TROUPE_TEST_TIMEOUT_FACTOR 4)
elseif(TROUPE_SANITIZE STREQUAL "thread")
  set(_flags -fsanitize=thread -fno-omit-frame-pointer)
  # GCC does not model fences for the thread sanitizer and says so.
  list(APPEND _flags "$<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>")
  set(TROUPE_TEST_TIMEOUT_FACTOR 8)
elseif(TROUPE_SANITIZE)
  message(FATAL_ERROR "TROUPE_SANITIZE is '${TROUPE_SANITIZE}'; it can be empty, address or thread.")
endif()
if(TROUPE_SANITIZE)
  # Instrumented, g++ 12 sees uninitialised members in std::function and std::regex that are not.
  list(APPEND _compiled ${_flags} "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${_compiled}>")
  add_link_options(${_flags})
  add_compile_definitions(TROUPE_SANITIZE_${TROUPE_SANITIZE}=1)
  target_sources(troupe_sanitizer INTERFACE "${PROJECT_SOURCE_DIR}/cmake/sanitizer_options.cpp")
endif()
