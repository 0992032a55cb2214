// ControlSocket: how the command line reaches a live run: a Unix socket in a folder that only the user can open.
//
// The folder is `$XDG_RUNTIME_DIR/paceline`, else `/tmp/paceline-UID`: mode 0700, of the user's own. `control.sock` in
// the run folder is a link to the socket, whose name is made of the folder's and the machine's, and is removed only
// while it leads there. Peers of another user are refused (SO_PEERCRED). Both are removed at the end; what a killed
// driver left its guardian removes, or the run's next driver, which holds the run's lock, replaces. Threading: a thread
// of its own accepts and receives; requests go to the inbox, answers to the request's client.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/controller/inbox.h"
#include "paceline/controller/occupation.h"

namespace paceline::controller {

class ControlSocket {
 public:
  virtual ~ControlSocket() = default;
  /// What it has made, absolute, in the order in which it can be removed: the link, the socket, the folder of sockets
  /// (which may hold those of other runs).
  virtual std::vector<std::string> files() const = 0;
};

/// The folder for sockets; made if need be. IOError when it is not the user's alone.
arrow::Result<std::string> private_socket_folder();

/// Listens until destroyed. A question for the status that is not answered within a second, because the controller's
/// thread is in something of the user's, is answered here, with "waits_for" alone. `inbox` and `occupation` must
/// outlive it; destruction empties the inbox: what still waits is not answered.
arrow::Result<std::unique_ptr<ControlSocket>> open_control_socket(const std::string& run_folder, Inbox& inbox,
                                                                  const Occupation& occupation);

}  // namespace paceline::controller
