# How tests become programs and tests of CTest.

# Headers of the tests are included as "tests/...".
add_library(troupe_test_includes INTERFACE)
target_include_directories(troupe_test_includes INTERFACE "${PROJECT_BINARY_DIR}/tests/include")

# Settings of the tests. What they instantiate is compiled once and run a few times, and a failure names its
# line by itself; -Og takes three quarters of the time of -O1.
add_library(troupe_test_settings INTERFACE)
target_link_libraries(troupe_test_settings INTERFACE troupe_test_includes)
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/tests/include")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_BINARY_DIR}/tests/include/tests" SYMBOLIC)
target_compile_options(troupe_test_settings INTERFACE "$<$<CONFIG:Release>:-Og;-g0>")
# Lines of the libraries that a test links are the most of its program: 40 of 50 MB, and half of the linker's time.
target_link_options(troupe_test_settings INTERFACE "$<$<CONFIG:Release>:LINKER:-S>")

# Tests of one folder, and of small folders, are compiled together and are one program: what a precompiled header leaves
# to each source that uses it (5 s with libtorch's), GoogleTest's templates and those of calls take half of the time of
# a test that is compiled alone. Each test is still a program of its own to CTest and to people: a link to the common
# one, which runs the tests of the source that it is called after (tests/joined_main.cpp).

find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_library(troupe_joined_main STATIC EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/joined_main.cpp")
target_link_libraries(troupe_joined_main PRIVATE troupe_settings GTest::gtest)

# _troupe_test_batches(OUT SOURCES LINES ALONE BASE_ONLY): lists of sources, joined by "|", of LINES lines at most. A
# folder begins a new one unless less than half of LINES would be left alone. With TROUPE_UNITY=OFF one source each.
function(_troupe_test_batches out sources lines alone base_only)
  if(NOT lines)
    set(lines 900)
  endif()
  set(batches "")  # begins with those that are alone
  set(base "")
  set(rest "")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    if(NOT TROUPE_UNITY OR (alone AND name MATCHES "${alone}"))
      list(APPEND batches "${source}")
    elseif(base_only AND name MATCHES "${base_only}")
      list(APPEND base "${source}")
    else()
      list(APPEND rest "${source}")
    endif()
  endforeach()
  foreach(some IN ITEMS base rest)
    set(batch "")
    set(batch_lines 0)
    foreach(source IN LISTS ${some})
      get_filename_component(folder "${source}" DIRECTORY)
      file(STRINGS "${source}" text)
      list(LENGTH text length)
      math(EXPR sum "${batch_lines} + ${length}")
      math(EXPR twice "2 * ${batch_lines}")
      if(batch AND (sum GREATER lines OR (NOT folder STREQUAL batch_folder AND twice GREATER lines)))
        list(APPEND batches "${batch}")
        set(batch "")
        set(sum ${length})
      endif()
      if(batch)
        string(APPEND batch "|")
      endif()
      string(APPEND batch "${source}")
      set(batch_folder "${folder}")
      set(batch_lines ${sum})
    endforeach()
    if(batch)
      list(APPEND batches "${batch}")
    endif()
  endforeach()
  set(${out} "${batches}" PARENT_SCOPE)
endfunction()

# _troupe_test_programs(NAME FOLDER SOURCES...): the program of one source, or of several that is called NAME; sets
# _troupe_test_target.
function(_troupe_test_programs name folder)
  list(LENGTH ARGN count)
  if(count EQUAL 1)
    get_filename_component(name "${ARGN}" NAME_WE)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  else()
    set(joined "${CMAKE_CURRENT_BINARY_DIR}/joined/${name}.cpp")
    set(script "${PROJECT_SOURCE_DIR}/cmake/join_tests.py")
    add_custom_command(OUTPUT "${joined}" COMMAND Python3::Interpreter "${script}" "${joined}" ${ARGN}
                       DEPENDS "${script}" ${ARGN} VERBATIM)
    add_executable(${name} "${joined}")
    target_link_libraries(${name} PRIVATE troupe_joined_main)
    # A coroutine's frame with types of a function has no linkage, g++ says.
    target_compile_options(${name} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>")
    foreach(source IN LISTS ARGN)
      get_filename_component(test "${source}" NAME_WE)
      add_custom_command(TARGET ${name} POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink ${name} "${folder}/${test}")
      add_custom_target(${test} DEPENDS ${name})
    endforeach()
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${folder}")
  set(_troupe_test_target ${name} PARENT_SCOPE)
endfunction()

# troupe_test(MODULE FOLDER [PRECOMPILE headers] [BASE_ONLY regex] [ALONE regex] [LINES n] [DEPENDS targets...]): the
# tests of a folder. Tests whose names match BASE_ONLY have base precompiled.
#   *_test.cpp      GoogleTest cases: a program each, which is a test of CTest, labelled with the module
#     *_timing_test.cpp  the same, run while no other test runs, labelled "timing" too
#     *_soak_test.cpp    the same, run by `make soak` only, labelled "soak" too, with a long limit
#   *_program.cpp   a program that tests start; they find it in TROUPE_TEST_PROGRAM_DIR
#   *_module.cpp    a shared object that programs load, whose symbols are theirs; it is there, too
#   other *.cpp     a library that all of them link
# Tests find the folder itself in TROUPE_TEST_SOURCE_DIR, the applications in TROUPE_APPS_DIR.
# Tests are compiled together some LINES at once, but for those that match ALONE.
function(troupe_test module folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "PRECOMPILE;BASE_ONLY;ALONE;LINES" "DEPENDS")
  _troupe_default_precompile()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  set(out "${PROJECT_BINARY_DIR}/tests/${module}")

  add_library(troupe_test_${module}_base INTERFACE)
  target_link_libraries(troupe_test_${module}_base INTERFACE troupe_settings troupe_test_settings ${arg_DEPENDS})
  target_compile_definitions(
    troupe_test_${module}_base
    INTERFACE "TROUPE_TEST_PROGRAM_DIR=\"${out}\"" "TROUPE_TEST_SOURCE_DIR=\"${folder}\""
              "TROUPE_APPS_DIR=\"${PROJECT_BINARY_DIR}/apps\"")

  set(helpers ${sources})
  list(FILTER helpers EXCLUDE REGEX "_(test|program|module)\\.cpp$")
  set(base troupe_test_${module}_base GTest::gtest GTest::gmock)
  if(helpers)
    add_library(troupe_test_${module} STATIC ${helpers})
    target_link_libraries(troupe_test_${module} PUBLIC ${base})
    troupe_precompile(troupe_test_${module} ${arg_PRECOMPILE}_tests)
    troupe_unity(troupe_test_${module})
    list(APPEND base troupe_test_${module})
  endif()

  set(programs ${sources})
  list(FILTER programs INCLUDE REGEX "_program\\.cpp$")
  set(program_targets "")
  foreach(source IN LISTS programs)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(${name} "${source}")
    target_link_libraries(${name} PRIVATE ${base} troupe_sanitizer)
    troupe_precompile(${name} ${arg_PRECOMPILE}_tests)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${out}")
    list(APPEND program_targets ${name})
  endforeach()
  file(GLOB_RECURSE modules CONFIGURE_DEPENDS "${folder}/*_module.cpp")
  foreach(source IN LISTS modules)
    get_filename_component(name "${source}" NAME_WE)
    # Compiled with what the programs are compiled with, and linked with nothing.
    add_library(${name}_object OBJECT "${source}")
    target_link_libraries(${name}_object PRIVATE ${base})
    set_target_properties(${name}_object PROPERTIES POSITION_INDEPENDENT_CODE ON)
    add_library(${name} MODULE $<TARGET_OBJECTS:${name}_object>)
    set_target_properties(${name} PROPERTIES PREFIX "" LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY "${out}")
    # The program that loads it shows its symbols.
    string(REGEX REPLACE "_module$" "_program" loader ${name})
    set_target_properties(${loader} PROPERTIES ENABLE_EXPORTS ON)
    add_dependencies(${loader} ${name})
  endforeach()
  list(FILTER sources INCLUDE REGEX "_test\\.cpp$")
  _troupe_test_batches(batches "${sources}" "${arg_LINES}" "${arg_ALONE}" "${arg_BASE_ONLY}")
  foreach(batch IN LISTS batches)
    string(REPLACE "|" ";" batch "${batch}")
    # Called after the folder of the first; numbers are a folder's own: a new test moves few.
    list(GET batch 0 first)
    get_filename_component(name "${first}" DIRECTORY)
    file(RELATIVE_PATH name "${folder}" "${name}")
    string(MAKE_C_IDENTIFIER "${module}_${name}_tests" name)
    math(EXPR number_of_${name} "0${number_of_${name}} + 1")
    _troupe_test_programs(${name}_${number_of_${name}} "${out}" ${batch})
    set(target ${_troupe_test_target})
    target_link_libraries(${target} PRIVATE ${base} troupe_sanitizer)
    get_filename_component(name "${first}" NAME_WE)
    if(arg_BASE_ONLY AND name MATCHES "${arg_BASE_ONLY}")
      troupe_precompile(${target} base_tests)
    else()
      troupe_precompile(${target} ${arg_PRECOMPILE}_tests)
    endif()
    if(program_targets)
      add_dependencies(${target} ${program_targets})
    endif()
  endforeach()
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    set(labels ${module})
    set(timeout 600)
    set(serial OFF)
    if(name MATCHES "_timing_test$")
      list(APPEND labels timing)
      set(serial ON)
    elseif(name MATCHES "_soak_test$")
      list(APPEND labels soak)
      set(timeout 100000)
      set(serial ON)
    endif()
    math(EXPR timeout "${timeout} * ${TROUPE_TEST_TIMEOUT_FACTOR}")
    # Tests run beside one another: more threads for one operation would only wait for a core.
    set(environment "OMP_NUM_THREADS=1")
    if(TROUPE_SANITIZE)
      list(APPEND environment "UCX_MEM_EVENTS=n")
    endif()
    # A program, not a case: each would load libtorch anew, which takes longer than most cases do.
    # cmake/test_times.py reads the results.
    add_test(NAME ${module}.${name} COMMAND "${out}/${name}")
    list(APPEND environment "GTEST_OUTPUT=xml:${out}/results/${name}.xml")
    set_tests_properties(${module}.${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} RUN_SERIAL ${serial}
                                                    ENVIRONMENT "${environment}")
  endforeach()
endfunction()
