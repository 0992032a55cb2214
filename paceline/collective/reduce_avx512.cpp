#define PACELINE_INSTRUCTIONS avx512
#include "paceline/collective/reduce_internal.h"
