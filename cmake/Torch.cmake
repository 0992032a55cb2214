# Target paceline_torch: LibTorch from CMAKE_PREFIX_PATH (an unpacked archive) or from the torch wheel in .venv,
# with the declarations of gloo that the wheel lacks.
list(APPEND CMAKE_PREFIX_PATH "${PACELINE_SITE_PACKAGES}/torch")
find_package(Torch REQUIRED)
add_library(paceline_torch INTERFACE)
target_link_libraries(paceline_torch INTERFACE ${TORCH_LIBRARIES})
