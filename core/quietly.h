/* SPDX-License-Identifier: Apache-2.0 */
/* quietly.h - writing without signals: at a limit of file sizes, or where nobody reads any more, the
 * system's default is to end the process; a library's line or trace is not worth that. */
#ifndef KVSI_QUIETLY_H
#define KVSI_QUIETLY_H

#include <sys/types.h>

/* write(2), or with an offset from 0 on pwrite(2); SIGXFSZ and SIGPIPE only become errno EFBIG and EPIPE. */
ssize_t kvsi_write_quietly(int fd, const void *data, size_t n_bytes, off_t offset);

#endif
