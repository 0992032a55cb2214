// Texts and values as records may show them: without the keys, passwords and tokens that stand in them.
//
// Of URIs, anywhere in a text, what storage::Location leaves out, and of http(s) the user too. Of what is called a
// password, a secret, a token, a credential, an authorization, or an access, account, shared, private or API key the
// value, whatever it is: as a member of an object, as `name=value` or `name: value` in a text, or as what follows the
// flag `--name`; and what follows "Bearer". Tokens of tokenizers (`pad_token`), counts and switches
// (`api_key_count=3`, `use_auth_token=True`) stay. What has another name stays: nobody can tell it from any other word.
// Pure; the time is proportional to the text's length.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/json.h"

namespace paceline::storage {

/// "--data=s3://KEY:SECRET@bucket --hf_token=SECRET" → "--data=s3://KEY:…@bucket --hf_token=…".
std::string without_secrets(std::string_view text);

/// The value, with "…" in place of secrets, in keys of objects too.
Json without_secrets(const Json& value);

}  // namespace paceline::storage
