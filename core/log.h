/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - log lines on stderr. KVSTORE_LOG=LEVEL[,AREA…] chooses what is shown; without it, warn. */
#ifndef KVSI_LOG_H
#define KVSI_LOG_H

#include <kvstore/abi.h>

/* `level` is KVS_LOG_…; `area` a word such as "loader". Any thread; one line is one write. */
void kvsi_log(int level, const char *area, const char *format, ...) KVS_PRINTF(3, 4);

#endif
