// What a process does when it writes to somebody who has gone.
#pragma once

namespace paceline {

/// From now on such a write is an error (EPIPE) in this process and in its forks, instead of a SIGPIPE that ends them
/// without a word. For who calls libraries that write to sockets without MSG_NOSIGNAL: Gloo, and the server of c10d's
/// TCPStore. Python does the same at its start. A handler that the program has set stays.
void survive_broken_pipes();

}  // namespace paceline
