# cmake -DBUILD=FOLDER -DSITE=FOLDER -DOUT=FOLDER -P package.cmake: makes the Debian package of a build and unpacks it into
# OUT/root, where the wheels of SITE then stand in for those that install_wheels.sh would unpack.
file(REMOVE_RECURSE "${OUT}")
file(MAKE_DIRECTORY "${OUT}/root")
execute_process(COMMAND "${CMAKE_CPACK_COMMAND}" --config "${BUILD}/CPackConfig.cmake" -B "${OUT}" WORKING_DIRECTORY "${BUILD}"
                OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
file(GLOB package "${OUT}/*.deb")
execute_process(COMMAND dpkg-deb -x "${package}" "${OUT}/root" COMMAND_ERROR_IS_FATAL ANY)
file(GLOB examples "${OUT}/root/usr/*/troupe/examples" "${OUT}/root/usr/lib/*/troupe/examples")
cmake_path(GET examples PARENT_PATH own)
if(IS_SYMLINK "${own}/site")
  message(FATAL_ERROR "the package has a link to the wheels of the machine that has made it")
endif()
file(CREATE_LINK "${SITE}" "${own}/site" SYMBOLIC)
# What CPack has copied is the same once more.
file(REMOVE_RECURSE "${OUT}/_CPack_Packages")
