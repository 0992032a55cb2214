#include "paceline/dashboard/openapi.h"

#include "paceline/dashboard/access/guard.h"
#include "paceline/dashboard/problem.h"
#include "paceline/dashboard/routes.h"
#include "paceline/dashboard/schema.h"

namespace paceline::dashboard {
namespace {

// "id" and "stream" of "/api/v1/runs/{id}/logs/{stream}".
Json path_parameters(std::string_view path) {
  Json parameters = Json::array();
  for (size_t begin = path.find('{'); begin != std::string_view::npos; begin = path.find('{', begin + 1)) {
    const std::string name(path.substr(begin + 1, path.find('}', begin) - begin - 1));
    parameters.push_back({{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  return parameters;
}

Json security_of(Needs needs) {
  const Json cookie = {{"session", Json::array()}}, token = {{"token", Json::array()}};
  if (needs == Needs::nothing) return Json::array();
  return needs == Needs::session ? Json::array({cookie}) : Json::array({cookie, token});
}

Json operation_of(const Route& route) {
  Json operation = {{"operationId", route.name},
                    {"summary", route.what},
                    {"security", security_of(route.needs)},
                    {"parameters", path_parameters(route.path)}};
  for (const Parameter& parameter : route.query) {
    operation["parameters"].push_back({{"name", parameter.name},
                                       {"in", "query"},
                                       {"description", parameter.what},
                                       {"schema", {{"type", parameter.type}}}});
  }
  if (route.method == std::string("POST") && route.needs != Needs::nothing) {
    operation["parameters"].push_back({{"name", kOwnHeader},
                                       {"in", "header"},
                                       {"required", true},
                                       {"description", "Any value: no form of another site can send it"},
                                       {"schema", {{"type", "string"}}}});
  }
  if (route.takes != nullptr) {
    Json schema = route.takes();
    schema.erase("required");
    operation["requestBody"] = {{"content", {{"application/json", {{"schema", schema}}}}}};
  }
  Json content = {{"schema", route.gives != nullptr ? route.gives() : Json{{"type", "string"}}}};
  operation["responses"]["200"] = {{"description", "Done"}, {"content", {{route.content_type, content}}}};
  operation["responses"]["default"] = {
      {"description", "An error (RFC 9457)"},
      {"content", {{"application/problem+json", {{"schema", {{"$ref", "#/components/schemas/Problem"}}}}}}}};
  return operation;
}

}  // namespace

Json openapi() {
  Json description = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Paceline's dashboard"},
        {"version", "v1"},
        {"description",
         "Times are seconds since the Unix epoch. Numbers that are not finite are {\"$number\": \"nan\" | \"inf\" | "
         "\"-inf\"}, as the command line has them, but for the points of curves."}}},
      {"paths", Json::object()},
      {"components",
       {{"schemas", {{"Problem", schema_of<Problem>()}}},
        {"securitySchemes",
         {{"session", {{"type", "apiKey"}, {"in", "cookie"}, {"name", "paceline_session_PORT"}}},
          {"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  for (const Route& route : routes()) {
    description["paths"][route.path][route.method == std::string("GET") ? "get" : "post"] = operation_of(route);
  }
  return description;
}

}  // namespace paceline::dashboard
