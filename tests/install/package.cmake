# cmake -DBUILD=FOLDER -DOUT=FOLDER -P package.cmake: makes the Debian package of a build and unpacks it into OUT/root.
file(REMOVE_RECURSE "${OUT}")
file(MAKE_DIRECTORY "${OUT}/root")
execute_process(COMMAND "${CMAKE_CPACK_COMMAND}" --config "${BUILD}/CPackConfig.cmake" -B "${OUT}" WORKING_DIRECTORY "${BUILD}"
                OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
file(GLOB package "${OUT}/*.deb")
execute_process(COMMAND dpkg-deb -x "${package}" "${OUT}/root" COMMAND_ERROR_IS_FATAL ANY)
# What CPack has copied is the same once more.
file(REMOVE_RECURSE "${OUT}/_CPack_Packages")
