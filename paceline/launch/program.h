// Which command a user's program is: pure but for the files that it looks at.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <optional>
#include <string>

#include "paceline/rpc/messages.h"

namespace paceline::launch {

/// How the user named the program, as torchrun's flags say it.
struct ProgramChoice {
  rpc::Strings words;      // the program and its arguments
  bool module = false;     // -m: the name of a Python module
  bool no_python = false;  // never by way of Python
};

/// Gives the value of an environment variable, nullopt when it is not set.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;

/// The command line to start, its first word an absolute path. A module and a file that is no executable ("train.py", a
/// folder or archive with __main__.py) run with Python, unbuffered, as torchrun runs them: $PYTHON_EXEC, else `python`,
/// else `python3` in PATH, which is a virtual environment's when one is active. Everything else runs itself, found as a
/// shell does. Invalid, with what to do, when there is no such program or no Python.
arrow::Result<rpc::Strings> command_of(const ProgramChoice& choice, const Variables& variables);

/// The same under a debugger whose standard streams are a terminal: Python under pdb (python/start/paceline_debugger.py
/// in `python_folder`), everything else under gdb. Invalid when there is no gdb.
arrow::Result<rpc::Strings> debugger_command_of(const ProgramChoice& choice, const Variables& variables,
                                                const std::string& python_folder);

/// Whether `file` is an executable that calls fit(): programs linked with Paceline's trainer carry a note (ELF section
/// .note.paceline) that says so.
bool is_paceline_driver(const std::string& file);

}  // namespace paceline::launch
