;; SPDX-License-Identifier: Apache-2.0
;; libkvstore.clj - the C library as the other namespaces see it: its functions, its errors and memory.
;;
;; Functions are looked up on first use. Structures of a call are written into a direct buffer that
;; each thread keeps, which costs less than JNA's own Structure; their layout is kvstore.h's. A
;; failure becomes an ExceptionInfo whose data has :code (the C status), :status (its name) and
;; :text. What belongs to programs is in kvstore.clj and ndarray.clj.
(ns org.apache.clojure-mxnet.libkvstore
  (:require [clojure.string :as string])
  (:import (com.sun.jna Function Library Native NativeLibrary Pointer)
           (java.lang.ref Cleaner Cleaner$Cleanable)
           (java.nio ByteBuffer ByteOrder)
           (java.nio.charset StandardCharsets)
           (java.util Map)
           (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

;; ---- Errors ------------------------------------------------------------------------------------

(def codes
  "The statuses that this binding decides itself, by kvstore.h's numbers."
  {"KVS_ERR_ARGUMENT" -1, "KVS_ERR_NO_MEMORY" -2, "KVS_ERR_SHAPE" -5, "KVS_ERR_DTYPE" -6,
   "KVS_ERR_STORAGE" -8, "KVS_ERR_RANGE" -9, "KVS_ERR_NOT_IMPLEMENTED" -10, "KVS_ERR_STATE" -11,
   "KVS_ERR_UNAVAILABLE" -12, "KVS_ERR_TIMEOUT" -16, "KVS_ERR_CALLBACK" -19})

(defn fail
  "Throws what a failing call of the library throws, with the text that the words make."
  [status & words]
  (let [text (apply str words)]
    (throw (ex-info text {:code (codes status) :status status :text text}))))

;; ---- The library -------------------------------------------------------------------------------

(def ^:private string-encoding {Library/OPTION_STRING_ENCODING "UTF-8"})

(def ^:private library
  (delay
   (let [path (System/getenv "KVSTORE_LIBRARY")
         path (if (empty? path) "libkvstore.so.0" path)]
     (try
       (NativeLibrary/getInstance ^String path ^Map string-encoding)
       (catch UnsatisfiedLinkError e
         (fail "KVS_ERR_UNAVAILABLE" "libkvstore can't be loaded from " path
               " (KVSTORE_LIBRARY names another file): "
               (last (take 2 (string/split-lines (.getMessage e))))))))))

(defn function
  "The C function of that name."
  ^Function [^String name]
  (.getFunction ^NativeLibrary @library name))

(defmacro defnative
  "Defines each symbol as a delay of the C function that stands after it."
  [& symbols-and-names]
  `(do ~@(for [[symbol name] (partition 2 symbols-and-names)]
           `(def ~(with-meta symbol {:private true}) (delay (function ~name))))))

(defmacro ^:no-doc arguments
  "An Object[] of the values, boxed."
  [values]
  (let [array (gensym "array")]
    `(let [~array (object-array ~(count values))]
       ~@(map-indexed (fn [i value] `(aset ~array ~i (identity ~value))) values)
       ~array)))

(defmacro invoke-int
  "Calls a delay of a C function that gives an int. An address is a Long, a C int an Integer."
  [f & values]
  `(.invokeInt ~(with-meta `(deref ~f) {:tag `Function}) (arguments ~values)))

(defnative
  last-error* "kvs_last_error"
  status-name* "kvs_status_name"
  fail* "kvs_fail")

(defn last-error
  "The text of this thread's last failed call."
  ^String []
  (.getString (.invokePointer ^Function @last-error* (object-array 0)) 0 "UTF-8"))

(defn error
  "The exception of a call that gave `code`, with its text."
  ([code] (error code nil))
  ([code cause]
   (let [text (last-error)
         status (.getString (.invokePointer ^Function @status-name* (object-array [(int code)])) 0)]
     (ex-info text {:code code :status status :text text} cause))))

(defn check
  "Throws unless `code` is that of success."
  [^long code]
  (when-not (zero? code)
    (throw (error code))))

(defn set-error
  "Leaves `text` for the C caller of this thread and gives `code`."
  [^long code ^String text]
  (.invokeInt ^Function @fail* (object-array [(int code) (string/replace text "%" "%%")])))

;; ---- Structures of a call ----------------------------------------------------------------------

(defn buffer
  "A direct buffer of the machine's byte order."
  ^ByteBuffer [^long n-bytes]
  (.order (ByteBuffer/allocateDirect n-bytes) (ByteOrder/nativeOrder)))

(defn address
  "Where a direct buffer lies."
  ^long [^ByteBuffer buffer]
  (Pointer/nativeValue (Native/getDirectBufferPointer buffer)))

;; Room for the structures of one call: `place` is the address of `buffer`.
(deftype Scratch [^ByteBuffer buffer ^long place])

(def ^:private ^ThreadLocal scratch (ThreadLocal.))

(defn borrow-scratch
  "This thread's room if it is large enough and not lent already, else a new one. Give it back with
  return-scratch."
  ^Scratch [^long n-bytes]
  (let [^Scratch mine (.get scratch)]
    (.set scratch nil)
    (if (and mine (<= n-bytes (.capacity ^ByteBuffer (.buffer mine))))
      mine
      (let [room (buffer (max 4096 n-bytes))]
        (Scratch. room (address room))))))

(defn return-scratch [room]
  (.set scratch room))

(defn text-argument
  "`text`, if it is one that C can read: NUL can't stand in it."
  ^String [what text]
  (cond
    (not (string? text))
    (fail "KVS_ERR_ARGUMENT" what " is to be a string, not " (pr-str text))
    (neg? (.indexOf ^String text 0))
    text
    :else
    (fail "KVS_ERR_ARGUMENT" what " has a NUL character: " (pr-str text))))

(defn utf8
  "Its bytes, without an end."
  ^bytes [what text]
  (.getBytes (text-argument what text) StandardCharsets/UTF_8))

;; ---- Memory ------------------------------------------------------------------------------------

(def ^:private ^Cleaner cleaner (Cleaner/create))
(def ^:private ^AtomicLong living (AtomicLong.))
(def ^:private ^AtomicLong since-collection (AtomicLong.))
(def ^:private ^:const collect-after-bytes (* 256 1024 1024))

(defn live-bytes
  "How many bytes of array data are allocated now."
  []
  (.get living))

;; Native memory that is freed with the object, or before by free-block.
(deftype Block [^Pointer pointer ^long n-bytes ^objects cleanable])

(defn- release-action ^Runnable [^long place ^long n-bytes]
  (fn []
    (Native/free place)
    (.addAndGet living (- n-bytes))))

(defn- note-allocation
  "The collector doesn't see native memory: it is asked to run after much of it was allocated, so that
  a loop that drops arrays doesn't grow."
  [^long n-bytes]
  (.addAndGet living n-bytes)
  (when (> (.addAndGet since-collection n-bytes) collect-after-bytes)
    (.set since-collection 0)
    (System/gc)))

(defn allocate
  "A block of zeroed memory."
  ^Block [^long n-bytes]
  (let [place (Native/malloc (max 1 n-bytes))]
    (when (zero? place)
      (fail "KVS_ERR_NO_MEMORY" "no memory for an array of " n-bytes " bytes"))
    (note-allocation n-bytes)
    (let [block (Block. (Pointer. place) n-bytes (object-array 1))]
      (aset ^objects (.cleanable block) 0
            (.register cleaner block (release-action place n-bytes)))
      (.clear ^Pointer (.pointer block) n-bytes)
      block)))

(defn free-block
  "Frees the block; the second time it does nothing."
  [^Block block]
  (.clean ^Cleaner$Cleanable (aget ^objects (.cleanable block) 0)))
