# Target paceline_torch and PACELINE_TORCH_VERSION: LibTorch from CMAKE_PREFIX_PATH (an unpacked archive), otherwise from
# the torch wheel in PACELINE_SITE_PACKAGES. Where it is in neither, PACELINE_MISSING says so. PACELINE_TORCH_HAS_CUDA
# says whether it can use GPUs. Also part of the installed package.
#
# The wheel's own CMake package is not used: with CUDA it wants a whole CUDA toolkit, of which a wheel needs nothing but
# the headers that come as further wheels.
if(TARGET paceline_torch)
  return()
endif()
find_package(Torch QUIET)
set(TORCH_WHEEL "${PACELINE_SITE_PACKAGES}/torch")
if(NOT Torch_FOUND AND NOT EXISTS "${TORCH_WHEEL}/lib/libtorch_cpu.so")
  set(PACELINE_MISSING "LibTorch was not found: neither in CMAKE_PREFIX_PATH nor the torch wheel in ${TORCH_WHEEL}.")
  return()
endif()
add_library(paceline_torch INTERFACE IMPORTED)
set(PACELINE_TORCH_HAS_CUDA FALSE)
if(Torch_FOUND)
  set(PACELINE_TORCH_VERSION "${Torch_VERSION}")
  target_link_libraries(paceline_torch INTERFACE ${TORCH_LIBRARIES})
  if(TARGET torch_cuda)
    set(PACELINE_TORCH_HAS_CUDA TRUE)
  endif()
else()
  file(STRINGS "${TORCH_WHEEL}/version.py" TORCH_WHEEL_VERSION REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" PACELINE_TORCH_VERSION "${TORCH_WHEEL_VERSION}")
  target_include_directories(paceline_torch SYSTEM INTERFACE
    "${TORCH_WHEEL}/include" "${TORCH_WHEEL}/include/torch/csrc/api/include")
  target_compile_definitions(paceline_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
  target_link_libraries(paceline_torch INTERFACE "${TORCH_WHEEL}/lib/libtorch_cpu.so" "${TORCH_WHEEL}/lib/libc10.so")
  if(EXISTS "${TORCH_WHEEL}/lib/libtorch_cuda.so")
    set(PACELINE_TORCH_HAS_CUDA TRUE)
    file(GLOB CUDA_HEADERS "${PACELINE_SITE_PACKAGES}/nvidia/*/include")
    file(GLOB CUDA_RUNTIME "${PACELINE_SITE_PACKAGES}/nvidia/*/lib/libcudart.so.*")
    target_include_directories(paceline_torch SYSTEM INTERFACE ${CUDA_HEADERS})
    # Nothing names a symbol of libtorch_cuda.so; loading it is what makes GPUs known.
    target_link_libraries(paceline_torch INTERFACE
      -Wl,--no-as-needed "${TORCH_WHEEL}/lib/libtorch_cuda.so" "${TORCH_WHEEL}/lib/libc10_cuda.so" -Wl,--as-needed
      ${CUDA_RUNTIME})
  endif()
endif()
