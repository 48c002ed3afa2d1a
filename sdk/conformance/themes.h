/* SPDX-License-Identifier: Apache-2.0 */
/* themes.h - the themes of the suite, in the order in which they run; cases_NAME.c holds each. */
#ifndef CF_THEMES_H
#define CF_THEMES_H

#include "case.h"

#define CF_THEME_LIST(X)                                                                           \
    X(create)                                                                                      \
    X(keys)                                                                                        \
    X(lists)                                                                                       \
    X(init)                                                                                        \
    X(push)                                                                                        \
    X(pull)                                                                                        \
    X(pushpull)                                                                                    \
    X(broadcast)                                                                                   \
    X(alone)                                                                                       \
    X(allreduce)                                                                                   \
    X(dtypes)                                                                                      \
    X(arrays)                                                                                      \
    X(updater)                                                                                     \
    X(optimizer)                                                                                   \
    X(async)                                                                                       \
    X(states)                                                                                      \
    X(sparse)                                                                                      \
    X(rows)                                                                                        \
    X(gradients)                                                                                   \
    X(compression)                                                                                 \
    X(nonfinite)                                                                                   \
    X(capability)                                                                                  \
    X(events)                                                                                      \
    X(forget)                                                                                      \
    X(errors)                                                                                      \
    X(store)                                                                                       \
    X(threads)

#define CF_THEME_DECLARATION(name) extern const cf_theme_t cf_theme_##name;
CF_THEME_LIST(CF_THEME_DECLARATION)
#undef CF_THEME_DECLARATION

#endif
