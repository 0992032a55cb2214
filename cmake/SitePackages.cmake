# PACELINE_SITE_PACKAGES: the folders that hold the wheels torch and pyarrow. As the user gives them; else that of the
# environment which Paceline was set up with (PACELINE_SET_UP_WITH), and those of the Python which it builds on
# (tools/setup); else that of the active virtual environment.
set(PACELINE_SITE_PACKAGES "" CACHE PATH "site-packages with the wheels torch and pyarrow; empty to look for it")
if(NOT PACELINE_SITE_PACKAGES AND SKBUILD)  # `pip install .`: the environment that it installs into
  execute_process(COMMAND "${Python_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_path('purelib'))"
                  OUTPUT_VARIABLE PACELINE_SITE_PACKAGES OUTPUT_STRIP_TRAILING_WHITESPACE)
elseif(NOT PACELINE_SITE_PACKAGES)
  file(GLOB SITE_PACKAGES LIST_DIRECTORIES ON "${PACELINE_SET_UP_WITH}/lib/python3*/site-packages")
  foreach(folder IN LISTS SITE_PACKAGES)
    if(EXISTS "${folder}/paceline_builds_on.pth")
      file(STRINGS "${folder}/paceline_builds_on.pth" folders)
      list(APPEND SITE_PACKAGES ${folders})
    endif()
  endforeach()
  if(NOT SITE_PACKAGES AND DEFINED ENV{VIRTUAL_ENV})
    file(GLOB SITE_PACKAGES LIST_DIRECTORIES ON "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages")
  endif()
  set(PACELINE_SITE_PACKAGES "${SITE_PACKAGES}")
endif()

# find_wheel(VARIABLE PACKAGE FILE): the first folder of PACKAGE in PACELINE_SITE_PACKAGES that has FILE, a pattern. Where
# none has it, a folder in which it could have been.
function(find_wheel variable package file)
  foreach(folder IN LISTS PACELINE_SITE_PACKAGES)
    file(GLOB found "${folder}/${package}/${file}")
    if(found)
      set(${variable} "${folder}/${package}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  list(POP_FRONT PACELINE_SITE_PACKAGES folder)
  set(${variable} "${folder}/${package}" PARENT_SCOPE)
endfunction()
