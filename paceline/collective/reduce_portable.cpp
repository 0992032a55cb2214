#define PACELINE_INSTRUCTIONS portable
#include "paceline/collective/reduce_internal.h"
