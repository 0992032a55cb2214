// The share of the processor that a process leaves to others.
#pragma once

namespace paceline {

/// From now on this process, and what it starts, runs where others leave the processor free (nice 10): whoever is
/// served comes before who serves. Its threads, those that come too. Where the system forbids it, nothing changes.
void yield_to_others();

}  // namespace paceline
