# One set of compiler settings for every target: precompiled headers can only be shared between equal ones.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# -O2 compiles much faster than -O3 and nothing here is hot outside LibTorch; line tables let errors name the user's line.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
# The sanitizers' builds: their reports name lines, and what they run is seconds long.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

find_program(CCACHE ccache)
if(CCACHE)
  # ccache understands precompiled headers only with these freedoms.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  add_compile_options(-fpch-preprocess)
endif()
find_program(MOLD mold)
if(MOLD)
  # mold 1.10 may end the text some bytes before a page's end and begin RELRO there, in a page that is not mapped: then the
  # program does not start ("cannot apply additional memory protection after relocation"). Not if segments begin with pages.
  add_link_options(-fuse-ld=mold -Wl,-z,separate-loadable-segments)
endif()

# -fPIC for programs too: otherwise they could not share the libraries' precompiled headers.
add_compile_options(-fPIC)
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(PACELINE_SANITIZER STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(PACELINE_SANITIZER STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
endif()
