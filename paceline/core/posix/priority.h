// What processes and threads leave of the processor to others.
#pragma once

namespace paceline {

/// From now on this process, and what it starts, runs where others leave the processor free (nice 10): whoever is
/// served comes before who serves. Its threads, those that come too. Where the system forbids it, nothing changes.
void yield_to_others();

/// From now on the calling thread does not preempt the one that wakes it (SCHED_BATCH). Its share of the processor
/// stays the same. Otherwise, on busy cores, who hands something to a thread at work may wait some milliseconds for it.
/// Where the system forbids it, nothing changes.
void never_preempt();

}  // namespace paceline
