// What the user's locale can show.
#pragma once

namespace paceline {

/// Whether letters beyond ASCII may be printed: what setlocale() would find, without changing the program's locale.
bool locale_has_utf8();

}  // namespace paceline
