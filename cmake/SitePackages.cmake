# PACELINE_SITE_PACKAGES: the folder that holds the wheels torch and pyarrow. As the user gives it; else that of the
# environment which Paceline was set up with (PACELINE_SET_UP_WITH), else that of the active virtual environment.
set(PACELINE_SITE_PACKAGES "" CACHE PATH "site-packages with the wheels torch and pyarrow; empty to look for it")
if(NOT PACELINE_SITE_PACKAGES AND SKBUILD)  # `pip install .`: the environment that it installs into
  execute_process(COMMAND "${Python_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_path('purelib'))"
                  OUTPUT_VARIABLE PACELINE_SITE_PACKAGES OUTPUT_STRIP_TRAILING_WHITESPACE)
elseif(NOT PACELINE_SITE_PACKAGES)
  file(GLOB SITE_PACKAGES LIST_DIRECTORIES ON "${PACELINE_SET_UP_WITH}/lib/python3*/site-packages")
  if(NOT SITE_PACKAGES AND DEFINED ENV{VIRTUAL_ENV})
    file(GLOB SITE_PACKAGES LIST_DIRECTORIES ON "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages")
  endif()
  set(PACELINE_SITE_PACKAGES "${SITE_PACKAGES}")
endif()
