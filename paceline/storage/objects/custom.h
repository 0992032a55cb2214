// Custom file systems: Arrow file systems that the program brings with it, rather than a URI that anybody can open.
//
// A process that has such a file system adds it under an id, and opens what is in it as "custom://ID@TYPE/FOLDER". TYPE
// says to people what it is. The id is a secret of the processes of one run: no text of a Location has it, so what is
// read from a journal or the run store cannot be opened, and says so. Another program that gives the same file system
// arrives at the same text. Thread-safe; what was added stays until the process ends.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <string>

#include "paceline/storage/location.h"

namespace arrow::fs {
class FileSystem;
}

namespace paceline::storage {

/// The id must be a new one: letters and digits.
void add_file_system(const std::string& id, std::shared_ptr<arrow::fs::FileSystem> system);
/// Where `path` of the file system is: in `type` what a URI cannot have is replaced, and "" is the file system's root.
Location custom_location(const std::string& id, const std::string& type, const std::string& path);
/// The id in a location; "" for others, and for those that were read from a text.
std::string custom_id(const Location& location);

}  // namespace paceline::storage
