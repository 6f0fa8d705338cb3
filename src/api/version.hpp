#pragma once

namespace kvasir::api {

const char* version();  // "0.1.0"

}  // namespace kvasir::api
