#define PACELINE_INSTRUCTIONS avx2
#include "paceline/collective/reduce_internal.h"
