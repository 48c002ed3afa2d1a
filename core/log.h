/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - log lines on stderr. The setting `log`, LEVEL[,AREA…], chooses what is shown: KVSTORE_LOG
 * from the start, what a configuration file says from the first store on. */
#ifndef KVSI_LOG_H
#define KVSI_LOG_H

#include <kvstore/abi.h>

/* `level` is KVS_LOG_…; `area` a word such as "loader". Any thread; one line is one write. */
void kvsi_log(int level, const char *area, const char *format, ...) KVS_PRINTF(3, 4);
/* Show what `setting` says, "debug,loader"; a malformed one changes nothing. */
void kvsi_log_set(const char *setting);

#endif
