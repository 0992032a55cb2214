# Target paceline_torch and PACELINE_TORCH_VERSION: LibTorch from CMAKE_PREFIX_PATH (an unpacked archive), otherwise from
# the torch wheel in PACELINE_SITE_PACKAGES. Where it is in neither, PACELINE_MISSING says so. PACELINE_TORCH_HAS_CUDA
# says whether it can use GPUs. Also part of the installed package.
#
# The wheel's own CMake package is not used: with CUDA it wants a whole CUDA toolkit, of which a wheel needs nothing but
# headers. Most come with the wheels that torch depends on; crt/ and nv/ with further ones, or from a CUDA toolkit.
if(TARGET paceline_torch)
  return()
endif()
find_package(Torch QUIET)
find_wheel(TORCH_WHEEL torch lib/libtorch_cpu.so)
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
    cmake_path(GET TORCH_WHEEL PARENT_PATH TORCH_SITE_PACKAGES)
    file(GLOB CUDA_HEADERS "${TORCH_SITE_PACKAGES}/nvidia/*/include")
    file(GLOB CUDA_RUNTIME "${TORCH_SITE_PACKAGES}/nvidia/*/lib/libcudart.so.*")
    find_program(NVCC nvcc PATHS /usr/local/cuda/bin)
    file(REAL_PATH "${NVCC}" CUDA_TOOLKIT)
    cmake_path(APPEND CUDA_TOOLKIT ../../include)
    cmake_path(NORMAL_PATH CUDA_TOOLKIT)
    foreach(header nccl.h cuda_runtime_api.h cublas_v2.h cusparse.h cusolverDn.h crt/host_config.h nv/target)
      string(MAKE_C_IDENTIFIER "PACELINE_${header}" folder)
      find_path(${folder} ${header} HINTS ${CUDA_HEADERS} "$ENV{CUDA_HOME}/include" "${CUDA_TOOLKIT}" PATH_SUFFIXES cccl)
      if(NOT ${folder})
        set(PACELINE_MISSING "torch in ${TORCH_WHEEL} is built for CUDA, but the header ${header} was not found: neither \
beside the wheel (pip install cuda-toolkit[cccl,crt]) nor in a CUDA toolkit (CUDA_HOME).")
        return()
      endif()
      list(APPEND CUDA_HEADERS "${${folder}}")
    endforeach()
    list(REMOVE_DUPLICATES CUDA_HEADERS)
    list(REMOVE_ITEM CUDA_HEADERS /usr/include)  # GCC's own #include_next would miss it
    target_include_directories(paceline_torch SYSTEM INTERFACE ${CUDA_HEADERS})
    # Nothing names a symbol of libtorch_cuda.so; loading it is what makes GPUs known.
    target_link_libraries(paceline_torch INTERFACE
      -Wl,--no-as-needed "${TORCH_WHEEL}/lib/libtorch_cuda.so" "${TORCH_WHEEL}/lib/libc10_cuda.so" -Wl,--as-needed
      ${CUDA_RUNTIME})
  endif()
endif()
