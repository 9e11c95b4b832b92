#include "wire/features.h"

#include <stddef.h>

const char *const protocol_features[] = {"editFile",
                                         "cancel",
                                         "stdin",
                                         "writeBytes",
                                         "readBytes",
                                         "searchHidden",
                                         "withMediaType",
                                         "outputTail",
                                         "secrets",
                                         "end",
                                         FEATURE_CONTROL,
                                         "allEntries",
                                         FEATURE_REPLY_TO,
                                         "raw",
                                         FEATURE_FLOW_CONTROL,
                                         FEATURE_FENCE,
                                         FEATURE_LIMITS,
                                         NULL};
