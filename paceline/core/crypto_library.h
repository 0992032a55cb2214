// OpenSSL's libcrypto, loaded where it is wanted rather than linked.
//
// Arrow's libparquet exports some functions of an OpenSSL of its own. A program that linked both would call a mixture
// of the two, and so would libcrypto itself, whose calls of its own functions lead to the first of that name in the
// program: that ends in a crash, or in wrong signatures. So its functions are looked up in it, and it in itself
// (RTLD_DEEPBIND). Thread-safe.
#pragma once

#include <arrow/result.h>

namespace paceline {

/// For dlsym(); of the whole process, for ever. IOError where libcrypto.so.3 is not there.
arrow::Result<void*> crypto_library();

}  // namespace paceline
