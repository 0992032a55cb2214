// Reads less for the same rows: what later steps do not need of files is not read.
//
// Pure functions. Columns that no select_columns() behind a reader leaves over are not read, and a filter becomes the
// reader's as well, which then leaves out files and row groups none of whose rows can pass. The steps stay, so the rows
// are the same, except that columns which are never wanted cannot be wrong. What a function of the user's sees is
// not changed, but that its blocks are smaller ones, of which memory holds several; nor are the rows that a slice takes
// of a shuffled order, which depends on how large rows and blocks are.
#pragma once

#include "paceline/data/plan/plan.h"

namespace paceline::data {

/// The plan that open() opens in the place of `plan`.
Plan pushed_down(const Plan& plan);

}  // namespace paceline::data
