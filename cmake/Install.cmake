# `cmake --install`, find_package(Troupe), pkg-config and the Debian package.
#   bin/                       troupe-run, troupe, and the examples as troupe-NAME
#   include/troupe/*.hpp       public headers: <troupe/x.hpp>
#   include/troupe/MODULE/     what these include, and no other header; what lies in folders below include/troupe/ is
#                              internal
#   lib/, lib/cmake/Troupe/, lib/pkgconfig/troupe.pc
#   lib/troupe/examples/       the examples themselves
#   lib/troupe/site/           the wheels: a link to those of the build; without it share/troupe/install_wheels.sh
#                              unpacks them there. Nothing that is installed knows the build's folders but for the link.
#   share/troupe/              install_wheels.sh and what it reads, and the examples' data
#   share/                     man pages and bash completions from each program's --help
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The examples' data, which `make setup` makes: apps/DATA.md says whose they are.
set(TROUPE_DATA_FILES "${PROJECT_SOURCE_DIR}/.deps/digits.csv.gz" "${PROJECT_SOURCE_DIR}/.deps/bible.txt")

# _troupe_run_path(TARGET FOLDER): TARGET, installed into FOLDER, finds our shared libraries and those of the wheels.
# libtorch finds what it needs of CUDA by itself.
function(_troupe_run_path target folder)
  file(RELATIVE_PATH to_lib "${CMAKE_INSTALL_PREFIX}/${folder}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  string(REGEX REPLACE "/$" "" lib "$ORIGIN/${to_lib}")
  set(path "${lib}" "${lib}/troupe/site/torch/lib" "${lib}/troupe/site/libucx/lib")
  set(build "${TROUPE_SITE}/torch/lib" "${TROUPE_SITE}/libucx/lib")
  if(TROUPE_CAF_ROOT)
    list(APPEND path "${TROUPE_CAF_ROOT}/lib")
    list(APPEND build "${TROUPE_CAF_ROOT}/lib")
  endif()
  # Until it is installed, CMake ends the run path of such a target with colons, which stand for the working folder: a
  # program would load libraries that others have put there. It finds all of them before.
  if(BUILD_SHARED_LIBS)
    list(TRANSFORM TROUPE_MODULES PREPEND "${PROJECT_BINARY_DIR}/" OUTPUT_VARIABLE ours)
    list(APPEND build ${ours})
  endif()
  set(system "${CMAKE_LIBRARY_ARCHITECTURE}")
  list(APPEND build "/usr/lib/${system}" "/lib/${system}" /usr/lib64 /usr/lib)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${path}" BUILD_RPATH "${build}")
endfunction()

function(_troupe_install_libraries)
  get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
  install(TARGETS troupe ${libraries} EXPORT TroupeTargets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  foreach(library IN LISTS libraries)
    _troupe_run_path(${library} "${CMAKE_INSTALL_LIBDIR}")
  endforeach()

  # Which they are is seen when they are installed: an edit may have changed it since the build was configured.
  set(TROUPE_HEADER_ROOTS "")
  set(TROUPE_PUBLIC_HEADERS "")
  set(modules ${TROUPE_MODULES})
  list(REMOVE_ITEM modules apps)
  foreach(module IN LISTS modules)
    set(folder "${PROJECT_SOURCE_DIR}/${module}")
    string(APPEND TROUPE_HEADER_ROOTS " \"troupe/${module}/\" \"${folder}\" \"troupe/\" \"${folder}/include/troupe\"")
    file(GLOB public CONFIGURE_DEPENDS RELATIVE "${folder}/include" "${folder}/include/troupe/*.hpp")
    list(JOIN public " " public)
    string(APPEND TROUPE_PUBLIC_HEADERS " ${public}")
  endforeach()
  string(APPEND TROUPE_HEADER_ROOTS " \"troupe/\" \"${PROJECT_BINARY_DIR}/generated/troupe\"")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake.in"
                 "${PROJECT_BINARY_DIR}/install/install_headers.cmake" @ONLY)
  install(SCRIPT "${PROJECT_BINARY_DIR}/install/install_headers.cmake")
endfunction()

# What a program of a user is compiled and linked with, for find_package and for pkg-config.
function(_troupe_install_package)
  set(cmake_folder "${CMAKE_INSTALL_LIBDIR}/cmake/Troupe")
  set(out "${PROJECT_BINARY_DIR}/install")
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/TroupeConfig.cmake.in" "${out}/TroupeConfig.cmake"
                                INSTALL_DESTINATION "${cmake_folder}"
                                PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_DATADIR)
  # Before 1.0, a minor version may change everything.
  write_basic_package_version_file("${out}/TroupeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${out}/TroupeConfig.cmake" "${out}/TroupeConfigVersion.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/TroupeLibraries.cmake" "${PROJECT_SOURCE_DIR}/cmake/kj_equality.hpp"
          DESTINATION "${cmake_folder}")
  install(EXPORT TroupeTargets NAMESPACE troupe:: DESTINATION "${cmake_folder}")

  # A static library comes before those that it uses.
  get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
  list(REVERSE libraries)
  set(TROUPE_LINKED "")
  foreach(library IN LISTS libraries)
    get_target_property(type ${library} TYPE)
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
      string(APPEND TROUPE_LINKED " -l${library}")
    endif()
  endforeach()
  set(TROUPE_CAF_CFLAGS "")
  set(TROUPE_CAF_LIBS "")
  if(TROUPE_CAF_ROOT)
    set(TROUPE_CAF_CFLAGS " -I${TROUPE_CAF_ROOT}/include")
    set(TROUPE_CAF_LIBS " -L${TROUPE_CAF_ROOT}/lib -Wl,-rpath,${TROUPE_CAF_ROOT}/lib")
  endif()
  file(RELATIVE_PATH TROUPE_TO_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
  string(REGEX REPLACE "/$" "" TROUPE_TO_PREFIX "${TROUPE_TO_PREFIX}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/troupe.pc.in" "${out}/troupe.pc" @ONLY)
  install(FILES "${out}/troupe.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  set(data "${CMAKE_INSTALL_DATADIR}/troupe")
  file(RELATIVE_PATH TROUPE_DATA_TO_LIB "${CMAKE_INSTALL_FULL_DATADIR}/troupe" "${CMAKE_INSTALL_FULL_LIBDIR}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/install_wheels.sh" "${out}/install_wheels.sh" @ONLY)
  install(PROGRAMS "${out}/install_wheels.sh" DESTINATION "${data}")
  foreach(file wheels.sh setup_common.sh versions.env)
    install(FILES "${PROJECT_SOURCE_DIR}/cmake/${file}" DESTINATION "${data}")
  endforeach()
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME copyright)
  install(FILES "${TROUPE_AEGIS}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME copyright.libaegis)
  install(FILES "${PROJECT_SOURCE_DIR}/CHANGELOG.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endfunction()

# Of a component of its own, which the package does not have.
function(_troupe_install_link_to_wheels)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/link_wheels.cmake.in" "${PROJECT_BINARY_DIR}/install/link_wheels.cmake"
                 @ONLY)
  install(SCRIPT "${PROJECT_BINARY_DIR}/install/link_wheels.cmake" COMPONENT wheels_of_the_build)
endfunction()

# A program's man page and completion are made when it has been linked, by asking it.
function(_troupe_install_descriptions target name)
  set(out "${PROJECT_BINARY_DIR}/install")
  set(page "${out}/man1/${name}.1")
  set(completion "${out}/completions/${name}")
  set(script "${PROJECT_SOURCE_DIR}/cmake/describe_program.py")
  add_custom_command(
    OUTPUT "${page}" "${completion}"
    COMMAND Python3::Interpreter "${script}" --name ${name} --version ${PROJECT_VERSION} --man "${page}" --completion
            "${completion}" $<TARGET_FILE:${target}>
    DEPENDS ${target} "${script}"
    COMMENT "Describing ${name}"
    VERBATIM)
  add_custom_target(describe_${name} ALL DEPENDS "${page}" "${completion}")
  set_property(GLOBAL APPEND PROPERTY TROUPE_DESCRIPTIONS describe_${name})
  install(FILES "${page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
  install(FILES "${completion}" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
endfunction()

function(_troupe_install_programs)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  get_property(programs GLOBAL PROPERTY TROUPE_APP_PROGRAMS)
  set(examples "${CMAKE_INSTALL_LIBDIR}/troupe/examples")
  file(RELATIVE_PATH to_examples "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_PREFIX}/${examples}")
  foreach(program IN LISTS programs)
    get_target_property(name ${program} OUTPUT_NAME)
    if(NOT name)
      set(name ${program})
    endif()
    if(program MATCHES "^troupe")
      install(TARGETS ${program} DESTINATION "${CMAKE_INSTALL_BINDIR}")
      _troupe_run_path(${program} "${CMAKE_INSTALL_BINDIR}")
    else()
      # Their names are anybody's: `batch`, for one, is a program of Debian.
      install(TARGETS ${program} DESTINATION "${examples}")
      _troupe_run_path(${program} "${examples}")
      string(REPLACE "_" "-" name "troupe-${name}")
      set(link "${PROJECT_BINARY_DIR}/install/bin/${name}")
      file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/install/bin")
      file(CREATE_LINK "${to_examples}/${program}" "${link}" SYMBOLIC)
      install(FILES "${link}" DESTINATION "${CMAKE_INSTALL_BINDIR}")
    endif()
    _troupe_install_descriptions(${program} ${name})
  endforeach()
  if(TROUPE_EXAMPLES)
    install(FILES ${TROUPE_DATA_FILES} DESTINATION "${CMAKE_INSTALL_DATADIR}/troupe" OPTIONAL)
    install(FILES "${PROJECT_SOURCE_DIR}/apps/DATA.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
  endif()
endfunction()

# The target troupe_installed: all that `cmake --install` and CPack copy, and no test.
function(_troupe_installed_target)
  add_custom_target(troupe_installed)
  foreach(property TROUPE_LIBRARIES TROUPE_APP_PROGRAMS TROUPE_DESCRIPTIONS)
    get_property(targets GLOBAL PROPERTY ${property})
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      if(NOT type STREQUAL "INTERFACE_LIBRARY")
        add_dependencies(troupe_installed ${target})
      endif()
    endforeach()
  endforeach()
endfunction()

# The wheels are in no package of Debian: the user of another machine unpacks them there.
macro(_troupe_debian_package)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME troupe)
  set(CPACK_PACKAGE_VENDOR "The Troupe authors")
  set(CPACK_PACKAGE_CONTACT "The Troupe authors <authors@troupe.invalid>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_PACKAGE_DESCRIPTION
      "Libraries, headers and programs of Troupe, a C++20 framework for distributed machine learning.\n"
      "libtorch and UCX are taken from wheels, which this package does not have:\n"
      "run /usr/share/troupe/install_wheels.sh as root.")
  string(JOIN "" CPACK_PACKAGE_DESCRIPTION ${CPACK_PACKAGE_DESCRIPTION})
  set(CPACK_PACKAGE_INSTALL_DIRECTORY troupe)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
  # Those of Debian 12, whose types are in our headers and whose libraries the programs link. libtorch brings its
  # libgomp.
  string(JOIN ", " CPACK_DEBIAN_PACKAGE_DEPENDS
         "libcaf-dev (>= 0.17.6), libcaf-dev (<< 0.17.7)" "libcapnp-dev (>= 0.9.2), libcapnp-dev (<< 0.9.3)"
         "libsodium-dev" "libfmt-dev (>= 9), libfmt-dev (<< 10)" "libspdlog-dev (>= 1:1.10), libspdlog-dev (<< 1:1.11)"
         "zlib1g" "libc6 (>= 2.36)" "libstdc++6 (>= 12)")
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++ (>= 12), cmake (>= 3.25), pkgconf, python3-pip, man-db, bash-completion")
  # Without the link to this machine's wheels, which is of another component.
  set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};${PROJECT_NAME};Unspecified;/")
  include(CPack)
endmacro()

# Called when all targets are there.
function(troupe_install)
  _troupe_install_libraries()
  _troupe_install_package()
  _troupe_install_programs()
  _troupe_install_link_to_wheels()
  _troupe_installed_target()
  if(PROJECT_IS_TOP_LEVEL)
    _troupe_debian_package()
  endif()
endfunction()
