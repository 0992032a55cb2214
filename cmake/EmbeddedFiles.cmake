# paceline_embed(<folder> <source>): writes a C++ source that holds every file of a folder in the program, as
# paceline/dashboard/assets.h lists them. The assembler reads the files: a compiler would take seconds for a megabyte.
function(paceline_embed folder source)
  file(GLOB_RECURSE files RELATIVE "${folder}" CONFIGURE_DEPENDS "${folder}/*")
  list(SORT files)
  set(bytes "")
  set(rows "")
  set(number 0)
  foreach(file IN LISTS files)
    # What has changed has another hash, which stands in the source.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/${file}")
    file(SHA256 "${folder}/${file}" hash)
    string(SUBSTRING "${hash}" 0 32 hash)
    string(APPEND bytes "
asm(R\"(.section .rodata
.global paceline_embedded_${number}, paceline_embedded_${number}_end
paceline_embedded_${number}:
.incbin \"${folder}/${file}\"
paceline_embedded_${number}_end:
.byte 0
.previous)\");
extern \"C\" const char paceline_embedded_${number}[], paceline_embedded_${number}_end[];
")
    string(APPEND rows "      {\"${file}\", text(paceline_embedded_${number}, paceline_embedded_${number}_end), \"${hash}\"},
")
    math(EXPR number "${number} + 1")
  endforeach()
  file(CONFIGURE OUTPUT "${source}" CONTENT "// Written by cmake/EmbeddedFiles.cmake.
#include \"paceline/dashboard/assets.h\"

#include <vector>
@bytes@
namespace paceline::dashboard {
namespace {

std::string_view text(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

std::span<const EmbeddedFile> embedded_files() {
  static const std::vector<EmbeddedFile> files = {
@rows@  };
  return files;
}

}  // namespace paceline::dashboard
" @ONLY)
  # The assembler's includes are invisible to ccache and to unity builds.
  set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
