# cmake -DBUILD=FOLDER -DPREFIX=FOLDER -P install_tree.cmake: installs a build into an empty folder.
file(REMOVE_RECURSE "${PREFIX}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${PREFIX}" OUTPUT_VARIABLE lines
                RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "`cmake --install` failed. It has printed:\n${lines}")
endif()
