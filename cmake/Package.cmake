# What programs link, in this build (add_subdirectory, FetchContent) and from an installed tree (find_package):
#
#   Paceline::control   reads checkpoints and histories of runs; without LibTorch
#   Paceline::train     everything: #include <paceline/paceline.h>
#   Paceline::paceline  the program
#
# Each is a component of find_package(Paceline) and of `cmake --install`: control, train, cli. Modules are our own affair:
# theirs are two archives, and only headers that the public ones include are installed.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(PublicHeaders)

set(PACELINE_CONTROL_HEADERS paceline/checkpoint/checkpoint.h paceline/checkpoint/store.h
                             paceline/checkpoint/tensor_reader.h paceline/track/metrics_history.h)
set(PACELINE_TRAIN_HEADERS paceline/paceline.h)

# paceline_archive(<component> MODULES <module>… DEPS <target>…): the objects of modules as one library.
function(paceline_archive component)
  cmake_parse_arguments(ARG "" "" "MODULES;DEPS" ${ARGN})
  set(archive paceline_${component}_archive)
  list(TRANSFORM ARG_MODULES REPLACE "(.+)" "$<TARGET_OBJECTS:paceline_\\1>" OUTPUT_VARIABLE objects)
  add_library(${archive} STATIC ${objects})
  add_library(Paceline::${component} ALIAS ${archive})
  set_target_properties(${archive} PROPERTIES EXPORT_NAME ${component} OUTPUT_NAME paceline_${component} LINKER_LANGUAGE CXX)
  target_compile_features(${archive} PUBLIC cxx_std_20)
  target_include_directories(${archive} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                                                  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${archive} PUBLIC ${ARG_DEPS})
  foreach(module IN LISTS ARG_MODULES)
    get_target_property(libraries paceline_${module} INTERFACE_LINK_LIBRARIES)
    foreach(library IN LISTS libraries)
      string(REGEX REPLACE "^\\$<LINK_ONLY:(.+)>$" "\\1" library "${library}")
      if(NOT library MATCHES "^paceline::" AND NOT library IN_LIST ARG_DEPS AND NOT library IN_LIST linked)
        list(APPEND linked ${library})
      endif()
    endforeach()
  endforeach()
  foreach(library IN LISTS linked)
    paceline_is_headers_only(is_headers_only ${library})
    if(NOT is_headers_only)
      target_link_libraries(${archive} PRIVATE ${library})
    endif()
  endforeach()
endfunction()

function(paceline_is_headers_only variable library)
  set(${variable} FALSE PARENT_SCOPE)
  if(TARGET ${library})
    get_target_property(type ${library} TYPE)
    get_target_property(links ${library} INTERFACE_LINK_LIBRARIES)
    if(type STREQUAL "INTERFACE_LIBRARY" AND NOT links)
      set(${variable} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

# paceline_install(<component> <target> [<header>…]): the target, and what its public headers include.
function(paceline_install component target)
  install(TARGETS ${target} EXPORT Paceline_${component} COMPONENT ${component})
  if(NOT PACELINE_INSTALL_DEBUG_INFO AND CMAKE_STRIP)
    set(folder "$<IF:$<STREQUAL:$<TARGET_PROPERTY:${target},TYPE>,EXECUTABLE>,${CMAKE_INSTALL_BINDIR},${CMAKE_INSTALL_LIBDIR}>")
    install(CODE "execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug
                                  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/$<TARGET_FILE_NAME:${target}>\"
                                  COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  endif()
  install(EXPORT Paceline_${component} NAMESPACE Paceline:: DESTINATION "${PACELINE_CMAKE_FOLDER}" COMPONENT ${component})
  if(ARGN)
    # The includes are followed when the headers are installed: they may change without a change here.
    install(CODE "
      cmake_policy(VERSION 3.25)
      include(\"${PROJECT_SOURCE_DIR}/cmake/PublicHeaders.cmake\")
      paceline_public_headers(headers \"${PROJECT_SOURCE_DIR}\" ${ARGN})
      foreach(header IN LISTS headers)
        get_filename_component(folder \"\${header}\" DIRECTORY)
        file(INSTALL \"${PROJECT_SOURCE_DIR}/\${header}\"
             DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/\${folder}\")
      endforeach()" COMPONENT ${component})
  endif()
endfunction()

# The modules that those given depend on, themselves among them.
function(paceline_closure variable)
  set(found "")
  set(next ${ARGN})
  while(next)
    list(POP_FRONT next module)
    list(APPEND found ${module})
    get_target_property(dependencies paceline_${module} PACELINE_DEPS)
    list(APPEND next ${dependencies})
    list(REMOVE_DUPLICATES next)
    list(REMOVE_ITEM next ${found})
  endwhile()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

paceline_closure(CONTROL_MODULES checkpoint track)
paceline_archive(control MODULES ${CONTROL_MODULES} DEPS paceline_arrow nlohmann_json::nlohmann_json Threads::Threads)
if(PACELINE_TORCH)
  paceline_closure(TRAIN_MODULES train)
  list(REMOVE_ITEM TRAIN_MODULES ${CONTROL_MODULES})
  paceline_archive(train MODULES ${TRAIN_MODULES} DEPS Paceline::control paceline_torch)
endif()
if(NOT PACELINE_INSTALL)
  return()
endif()

# Line tables are nine tenths of what is installed. Names of functions stay, for stacks; a user's own lines are in the
# user's own objects.
option(PACELINE_INSTALL_DEBUG_INFO "Install the program and the libraries with their debug information" OFF)

set(PACELINE_CMAKE_FOLDER "${CMAKE_INSTALL_LIBDIR}/cmake/Paceline")
configure_package_config_file(cmake/PacelineConfig.cmake.in "${PROJECT_BINARY_DIR}/PacelineConfig.cmake"
                              INSTALL_DESTINATION "${PACELINE_CMAKE_FOLDER}" NO_SET_AND_CHECK_MACRO)
# Up to 1.0 a minor version may change everything.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/PacelineConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
foreach(component control cli)  # either may be installed alone
  install(FILES "${PROJECT_BINARY_DIR}/PacelineConfig.cmake" "${PROJECT_BINARY_DIR}/PacelineConfigVersion.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/SitePackages.cmake" "${PROJECT_SOURCE_DIR}/cmake/Arrow.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/Torch.cmake"
          DESTINATION "${PACELINE_CMAKE_FOLDER}" COMPONENT ${component})
endforeach()
paceline_install(control paceline_control_archive ${PACELINE_CONTROL_HEADERS})
if(PACELINE_TORCH)
  paceline_install(train paceline_train_archive ${PACELINE_TRAIN_HEADERS})
endif()
set_target_properties(paceline PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
if(NOT Arrow_FOUND)
  # CMake takes .venv for a part of the build, because it lies in the source folder.
  set_target_properties(paceline PROPERTIES INSTALL_RPATH "${PYARROW}")
endif()
paceline_install(cli paceline)
