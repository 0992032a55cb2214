// The interface, declared once: every route with what it takes and gives. The router dispatches by this table, and
// docs/openapi.json is written from it.
#pragma once

#include <arrow/result.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/dashboard/message.h"
#include "paceline/dashboard/target.h"

namespace paceline::dashboard {

class Api;

/// A request as a route gets it.
struct Call {
  const Request& request;
  /// What stands in the place of "{id}", "{stream}" and "{name}".
  std::map<std::string, std::string> parts;
  const Query& query;
  /// Who asks, for the record: "session 1 from 127.0.0.1".
  std::string who;

  const std::string& part(const std::string& name) const { return parts.at(name); }
};

/// What one has to have for a route.
enum class Needs { nothing, session, session_or_token };

struct Parameter {
  const char* name;
  const char* type;  // of JSON Schema
  const char* what;
};

struct Route {
  const char* method;  // GET stands for HEAD too
  const char* path;
  const char* name;  // of the operation
  const char* what;
  Needs needs;
  std::vector<Parameter> query;
  const char* content_type;
  Json (*takes)();  // the schema of its body; null for none
  Json (*gives)();  // null for what is no JSON
  arrow::Result<Response> (*answer)(Api& api, const Call& call);
};

std::span<const Route> routes();

/// Whether the path is that of the route, and what stands in its variable parts.
bool matches(const Route& route, const std::vector<std::string>& path, std::map<std::string, std::string>& parts);

}  // namespace paceline::dashboard
