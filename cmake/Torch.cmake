# Target paceline_torch: LibTorch from CMAKE_PREFIX_PATH (an unpacked archive), otherwise from the torch wheel in .venv.
# TORCH_CUDA_LIBRARIES is set where it can use GPUs.
#
# The wheel's own CMake package is not used: with CUDA it wants a whole CUDA toolkit, of which a wheel needs nothing but
# the headers that come as further wheels.
find_package(Torch QUIET)
add_library(paceline_torch INTERFACE)
if(Torch_FOUND)
  target_link_libraries(paceline_torch INTERFACE ${TORCH_LIBRARIES})
else()
  set(TORCH_WHEEL "${PACELINE_SITE_PACKAGES}/torch")
  if(NOT EXISTS "${TORCH_WHEEL}/lib/libtorch_cpu.so")
    message(FATAL_ERROR "LibTorch was not found: neither in CMAKE_PREFIX_PATH nor in ${TORCH_WHEEL}. "
                        "`make setup` installs the torch wheel into .venv.")
  endif()
  target_include_directories(paceline_torch SYSTEM INTERFACE
    "${TORCH_WHEEL}/include" "${TORCH_WHEEL}/include/torch/csrc/api/include")
  target_compile_definitions(paceline_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
  target_link_libraries(paceline_torch INTERFACE "${TORCH_WHEEL}/lib/libtorch_cpu.so" "${TORCH_WHEEL}/lib/libc10.so")
  if(EXISTS "${TORCH_WHEEL}/lib/libtorch_cuda.so")
    set(TORCH_CUDA_LIBRARIES "${TORCH_WHEEL}/lib/libtorch_cuda.so" "${TORCH_WHEEL}/lib/libc10_cuda.so")
    file(GLOB CUDA_HEADERS "${PACELINE_SITE_PACKAGES}/nvidia/*/include")
    file(GLOB CUDA_RUNTIME "${PACELINE_SITE_PACKAGES}/nvidia/*/lib/libcudart.so.*")
    target_include_directories(paceline_torch SYSTEM INTERFACE ${CUDA_HEADERS})
    # Nothing names a symbol of libtorch_cuda.so; loading it is what makes GPUs known.
    target_link_libraries(paceline_torch INTERFACE
      -Wl,--no-as-needed ${TORCH_CUDA_LIBRARIES} -Wl,--as-needed ${CUDA_RUNTIME})
  endif()
endif()
