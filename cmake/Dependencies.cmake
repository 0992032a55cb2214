# Finds what Paceline builds on. Arrow and LibTorch come from the wheels in .venv unless CMAKE_PREFIX_PATH offers others.
set(PACELINE_SET_UP_WITH "${PROJECT_SOURCE_DIR}/.venv")
if(EXISTS "${PROJECT_SOURCE_DIR}/.packages/usr")  # the distribution's, where it could not install them (tools/offline)
  set(FOLDER "${PROJECT_SOURCE_DIR}/.packages/usr")
  list(PREPEND CMAKE_PREFIX_PATH "${FOLDER}")
  include_directories(SYSTEM "${FOLDER}/include" "${FOLDER}/include/x86_64-linux-gnu")
  link_directories("${FOLDER}/lib/x86_64-linux-gnu")
  list(APPEND CMAKE_BUILD_RPATH "${FOLDER}/lib/x86_64-linux-gnu")
endif()
include(SitePackages)

# What programs with Paceline link: the installed package finds these again (PacelineConfig.cmake.in).
set(PACELINE_CONTROL_PACKAGES "Threads" "nlohmann_json 3.10" "spdlog" "SQLite3 3.35")  # 3.35: RETURNING
foreach(package IN LISTS PACELINE_CONTROL_PACKAGES)
  separate_arguments(package)
  find_package(${package} REQUIRED)
endforeach()

# Headers, and what only the program or tests link; libcrypto is loaded where it is wanted.
find_package(OpenSSL 3.0 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(simdjson REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(ELFUTILS_INCLUDE_DIR elfutils/libdwfl.h REQUIRED)
find_path(CURL_INCLUDE_DIR curl/curl.h REQUIRED)

include(Arrow)
if(PACELINE_TORCH)
  include(Torch)
endif()
if(PACELINE_MISSING)
  message(FATAL_ERROR "${PACELINE_MISSING} `make setup` in ${PROJECT_SOURCE_DIR} installs the wheels into .venv; "
                      "-DPACELINE_SITE_PACKAGES=FOLDER takes them from another environment's site-packages.")
endif()

if(PACELINE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
if(PACELINE_BENCHMARKS AND PACELINE_TORCH)
  find_package(benchmark REQUIRED)
endif()
