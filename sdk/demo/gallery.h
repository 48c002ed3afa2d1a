/* SPDX-License-Identifier: Apache-2.0 */
/* gallery.h - the first test images with what the network takes them for, as a picture. */
#ifndef DEMO_GALLERY_H
#define DEMO_GALLERY_H

#include "data.h"

/* `predicted` has a class for each image of the set. Wrong ones get a red frame and the true class.
 * ERR_IO. */
kvs_status_t gallery_write(const char *path, const dataset_t *set, const uint8_t *predicted);

#endif
