;; SPDX-License-Identifier: Apache-2.0
;; ndarray.clj - arrays in native memory, which stores read and write in place, and a little arithmetic.
;;
;; An array's memory is freed when the array is collected, or at once by dispose. Names, argument
;; orders and defaults (float32, cpu 0) are those of MXNet's Clojure package; what it lacks, arrays of
;; rows (row-sparse) and operations in place, is marked in the README. Not thread-safe: who writes an
;; array lets no other thread use it.
(ns org.apache.clojure-mxnet.ndarray
  (:refer-clojure :exclude [* + - / empty set to-array])
  (:require [org.apache.clojure-mxnet.context :as context]
            [org.apache.clojure-mxnet.libkvstore :as lib])
  (:import (clojure.lang IFn$DDD IFn$LLL)
           (com.sun.jna Pointer)
           (java.io Writer)
           (java.nio ByteBuffer)
           (java.util Arrays)
           (org.apache.clojure_mxnet.libkvstore Block)))

(set! *warn-on-reflection* true)

;; ---- What an array is --------------------------------------------------------------------------

;; Offsets in kvs_tensor_t and kvs_rows_t of kvstore.h. An array's buffer holds its tensor, rows and shape.
(def ^:const tensor-bytes 72)
(def ^:private ^:const at-device-type 8)
(def ^:private ^:const at-device-id 12)
(def ^:private ^:const at-ndim 16)
(def ^:private ^:const at-code 20)
(def ^:private ^:const at-bits 21)
(def ^:private ^:const at-lanes 22)
(def ^:private ^:const at-shape 24)
(def ^:private ^:const at-byte-offset 40)
(def ^:private ^:const at-rows 56)
(def ^:private ^:const at-ids 72)
(def ^:private ^:const at-n-rows 80)
(def ^:private ^:const at-capacity 88)
(def ^:private ^:const at-dims 96)

(def ^:private dtypes
  "name -> [DLPack's code, bits]"
  {"float32" [2 32], "float64" [2 64], "int8" [0 8], "uint8" [1 8], "int32" [0 32], "int64" [0 64]})

;; parts: the data Block (of a view the Pointer; nil once disposed), the Block of row ids of a
;; row-sparse array (of a view the Pointer), and whether the data may only be read.
(deftype NDArray [^ByteBuffer tensor ^long place dims dtype ctx ^objects parts])

(defn- bits ^long [dtype]
  (nth (dtypes dtype) 1))

(defn- product ^long [dims]
  (reduce clojure.core/* 1 dims))

(defn- row-size ^long [^NDArray a]
  (product (rest (.dims a))))

(defn shape
  "Its dimensions, a vector."
  [^NDArray a]
  (.dims a))

(defn shape-vec
  "As shape."
  [a]
  (shape a))

(defn dtype
  "\"float32\", …"
  [^NDArray a]
  (.dtype a))

(defn context
  "Where it is labelled to lie."
  [^NDArray a]
  (.ctx a))

(defn size
  "How many elements its shape has."
  [^NDArray a]
  (product (.dims a)))

(defn sparse?
  "Whether it is row-sparse."
  [^NDArray a]
  (not (zero? (.getLong ^ByteBuffer (.tensor a) at-rows))))

(defn- n-rows ^long [^NDArray a]
  (.getLong ^ByteBuffer (.tensor a) at-n-rows))

(defn- n-stored
  "How many elements its data has."
  ^long [^NDArray a]
  (if (sparse? a)
    (clojure.core/* (n-rows a) (row-size a))
    (product (.dims a))))

(defn- part ^Pointer [^NDArray a index]
  (let [block (aget ^objects (.parts a) (int index))]
    (cond
      (nil? block)
      (lib/fail "KVS_ERR_STATE" "this array was disposed of, or was an updater's, whose call is over")
      (instance? Block block) (.pointer ^Block block)
      :else block)))

(defn ^:no-doc tensor
  "The kvs_tensor_t of an array whose memory is there."
  ^ByteBuffer [a]
  (when-not (instance? NDArray a)
    (lib/fail "KVS_ERR_ARGUMENT" "an NDArray is needed, not " (pr-str a)))
  (part a 0)
  (.tensor ^NDArray a))

(defn ^:no-doc place
  "Where that tensor lies."
  ^long [^NDArray a]
  (.place a))

;; ---- Making arrays -----------------------------------------------------------------------------

(defn- checked-shape [dims]
  (if (and (sequential? dims) (every? nat-int? dims))
    (vec dims)
    (lib/fail "KVS_ERR_ARGUMENT" "a shape is a vector of integers from 0, not " (pr-str dims))))

(defn- checked-dtype [dtype]
  (let [dtype (name dtype)]
    (if (dtypes dtype)
      dtype
      (lib/fail "KVS_ERR_DTYPE" "arrays here are of " (pr-str (sort (keys dtypes))) ", not of "
                (pr-str dtype)))))

(defn- bytes-of
  ^long [dtype ^long n-elements]
  (clojure.core/* n-elements (quot (bits dtype) 8)))

(defn- pointer-of ^long [part]
  (if (instance? Block part)
    (Pointer/nativeValue (.pointer ^Block part))
    (Pointer/nativeValue part)))

(defn- put-rows!
  "Says in the tensor where ids and data of a row-sparse array lie, and how many rows there are."
  [^NDArray a ^long n-rows ^long capacity]
  (doto ^ByteBuffer (.tensor a)
    (.putLong 0 (pointer-of (aget ^objects (.parts a) 0)))
    (.putLong at-ids (pointer-of (aget ^objects (.parts a) 1)))
    (.putLong at-n-rows n-rows)
    (.putLong at-capacity capacity)))

(defn- wrap
  "An array of these parts; `ids` is nil if it is dense."
  ^NDArray [data ids dims dtype ctx read-only]
  (let [^ByteBuffer tensor (lib/buffer (clojure.core/+ at-dims (clojure.core/* 8 (count dims))))
        place (lib/address tensor)
        [code bits] (dtypes dtype)]
    (doto tensor
      (.putLong 0 (pointer-of data))
      (.putInt at-device-type 1)
      (.putInt at-device-id (int (context/device-id ctx)))
      (.putInt at-ndim (count dims))
      (.put at-code (byte code))
      (.put at-bits (byte bits))
      (.putShort at-lanes 1)
      (.putLong at-shape (clojure.core/+ place at-dims)))
    (dorun (map-indexed (fn [i dim]
                          (.putLong tensor (clojure.core/+ at-dims (clojure.core/* 8 (int i)))
                                    (long dim)))
                        dims))
    (when ids
      (.putLong tensor at-rows (clojure.core/+ place at-ids)))
    (NDArray. tensor place dims dtype ctx (object-array [data ids read-only]))))

(defn empty
  "An array of that shape; options are :ctx and :dtype. Its elements are zero."
  ([shape-vec] (empty shape-vec {}))
  ([shape-vec {:keys [ctx dtype] :or {ctx (context/default-context) dtype "float32"}}]
   (let [dims (checked-shape shape-vec)
         dtype (checked-dtype dtype)]
     (wrap (lib/allocate (bytes-of dtype (product dims))) nil dims dtype ctx false))))

(defn zeros
  ([shape-vec] (empty shape-vec))
  ([shape-vec options] (empty shape-vec options)))

(defn dispose
  "Frees its memory now; the array can't be used after. The second time it does nothing."
  [^NDArray a]
  (let [^objects parts (.parts a)]
    (dotimes [i 2]
      (let [part (aget parts i)]
        (when (instance? Block part)
          (lib/free-block part))
        (aset parts i nil)))))

;; ---- Elements ----------------------------------------------------------------------------------

;; Elements are worked on as doubles or longs, this many at a time: arrays may be larger than those
;; of Java. An operation on float32 gives the same bits in double, rounded once.
(def ^:private ^:const span 65536)

(defn- floating? [dtype]
  (= 2 (nth (dtypes dtype) 0)))

(defmacro ^:private converted
  "The elements of the array `from`, a symbol with a type, as an array that `make` makes."
  [make from convert]
  `(let [to# (~make (alength ~from))]
     (dotimes [i# (alength ~from)]
       (aset to# i# (~convert (aget ~from i#))))
     to#))

(defn- load-span
  "Doubles or longs: `n` elements from the `start`-th on."
  [^Pointer pointer dtype start n]
  (let [offset (bytes-of dtype start)
        n (int n)]
    (case dtype
      "float64" (.getDoubleArray pointer offset n)
      "float32" (let [^floats from (.getFloatArray pointer offset n)]
                  (converted double-array from double))
      "int64" (.getLongArray pointer offset n)
      "int32" (let [^ints from (.getIntArray pointer offset n)]
                (converted long-array from long))
      "int8" (let [^bytes from (.getByteArray pointer offset n)]
               (converted long-array from long))
      "uint8" (let [^bytes from (.getByteArray pointer offset n)]
                (converted long-array from Byte/toUnsignedLong)))))

(defn- store-span!
  "Writes doubles or longs from the `start`-th element on; integers wrap."
  [^Pointer pointer dtype start elements]
  (let [offset (bytes-of dtype start)]
    (case dtype
      "float64" (let [^doubles from elements]
                  (.write pointer offset from 0 (alength from)))
      "float32" (let [^doubles from elements
                      ^floats to (converted float-array from unchecked-float)]
                  (.write pointer offset to 0 (alength to)))
      "int64" (let [^longs from elements]
                (.write pointer offset from 0 (alength from)))
      "int32" (let [^longs from elements
                    ^ints to (converted int-array from unchecked-int)]
                (.write pointer offset to 0 (alength to)))
      ("int8" "uint8") (let [^longs from elements
                             ^bytes to (converted byte-array from unchecked-byte)]
                         (.write pointer offset to 0 (alength to))))))

(defn- spans
  "[start, n] of each span of `n-elements`."
  [^long n-elements]
  (for [start (range 0 n-elements span)]
    [start (min span (clojure.core/- n-elements (long start)))]))

(defn- number-for
  "`x` as a double or a long, whichever arrays of the dtype have."
  [dtype x]
  (cond
    (not (number? x)) (lib/fail "KVS_ERR_ARGUMENT" "a number is needed, not " (pr-str x))
    (floating? dtype) (double x)
    (== x (bigint x)) (long x)
    :else (lib/fail "KVS_ERR_DTYPE" "an array of " dtype " can't take " (pr-str x))))

(defn- repeated
  "Doubles or longs: `x`, `n` times."
  [dtype x n]
  (let [x (number-for dtype x)]
    (if (floating? dtype)
      (doto (double-array n) (Arrays/fill (double x)))
      (doto (long-array n) (Arrays/fill (long x))))))

(defn- writable [^NDArray a]
  (when (aget ^objects (.parts a) 2)
    (lib/fail "KVS_ERR_ARGUMENT" "the value that an updater is given can only be read"))
  a)

(defn- dense [what a]
  (if (sparse? a)
    (lib/fail "KVS_ERR_STORAGE" what " takes no row-sparse array; use ndarray/->dense")
    a))

(defn- fill! [^NDArray a x]
  (let [pointer (part a 0)]
    (doseq [[start n] (spans (n-stored a))]
      (store-span! pointer (.dtype a) start (repeated (.dtype a) x n)))
    a))

(def ^:private float-array-class (class (float-array 0)))

(defn- put-numbers!
  "Writes as many numbers as the array stores; a Java array of floats as it is, if the dtype is that."
  [^NDArray a numbers]
  (let [^Pointer pointer (part a 0)
        given (count numbers)
        make (if (floating? (.dtype a)) double-array long-array)]
    (when-not (= given (n-stored a))
      (lib/fail "KVS_ERR_SHAPE" given " numbers are given for an array of shape "
                (pr-str (.dims a)) ", which stores " (n-stored a)))
    (if (and (= "float32" (.dtype a)) (instance? float-array-class numbers))
      (.write pointer 0 ^floats numbers 0 (int given))
      (dorun (map-indexed (fn [i part]
                            (store-span! pointer (.dtype a) (clojure.core/* span (long i))
                                         (make (map #(number-for (.dtype a) %) part))))
                          (partition-all span numbers))))
    a))

(defn full
  "An array filled with a number."
  ([shape-vec value] (full shape-vec value {}))
  ([shape-vec value options] (fill! (empty shape-vec options) value)))

(defn ones
  ([shape-vec] (ones shape-vec {}))
  ([shape-vec options] (full shape-vec 1 options)))

(defn array
  "An array of the numbers of a sequence, in row-major order."
  ([source-vec shape-vec] (array source-vec shape-vec {}))
  ([source-vec shape-vec options] (put-numbers! (empty shape-vec options) source-vec)))

;; ---- Arrays of rows ----------------------------------------------------------------------------

(defn- blocks-for-rows [dims dtype n-rows]
  [(lib/allocate (bytes-of dtype (clojure.core/* (long n-rows) (product (rest dims)))))
   (lib/allocate (clojure.core/* 8 (long n-rows)))])

(defn row-sparse-zeros
  "A row-sparse array of that full shape, without rows: an out of row-sparse-pull."
  ([shape-vec] (row-sparse-zeros shape-vec {}))
  ([shape-vec {:keys [ctx dtype] :or {ctx (context/default-context) dtype "float32"}}]
   (let [dims (checked-shape shape-vec)
         dtype (checked-dtype dtype)
         [data ids] (blocks-for-rows dims dtype 0)]
     (when (empty? dims)
       (lib/fail "KVS_ERR_SHAPE" "a row-sparse array has at least one dimension"))
     (doto (wrap data ids dims dtype ctx false)
       (put-rows! 0 0)))))

(defn ^:no-doc reserve-rows!
  "Gives a row-sparse array room for `n` rows; those that it had are lost where it grows."
  [^NDArray a ^long n]
  (when (< (.getLong (tensor a) at-capacity) n)
    (let [blocks (blocks-for-rows (.dims a) (.dtype a) n)]
      (dispose a)
      (System/arraycopy (object-array blocks) 0 (.parts a) 0 2)
      (put-rows! a 0 n))))

(defn row-sparse
  "A row-sparse array of that full shape: `source-vec` has the numbers of the rows of `ids`, in their
  order; repeated ids add up when it is pushed."
  ([source-vec ids shape-vec] (row-sparse source-vec ids shape-vec {}))
  ([source-vec ids shape-vec options]
   (let [a (row-sparse-zeros shape-vec options)
         n (count ids)]
     (reserve-rows! a n)
     (put-rows! a n n)
     (store-span! (part a 1) "int64" 0 (long-array ids))
     (put-numbers! a source-vec))))

(defn indices
  "The ids of the rows that a row-sparse array has, a vector."
  [a]
  (when-not (sparse? a)
    (lib/fail "KVS_ERR_STORAGE" "a dense array has no indices"))
  (vec (load-span (part a 1) "int64" 0 (n-rows a))))

;; ---- Arithmetic --------------------------------------------------------------------------------

(def ^:private add
  {:doubles (fn ^double [^double x ^double y] (clojure.core/+ x y))
   :longs (fn ^long [^long x ^long y] (unchecked-add x y))})
(def ^:private subtract
  {:doubles (fn ^double [^double x ^double y] (clojure.core/- x y))
   :longs (fn ^long [^long x ^long y] (unchecked-subtract x y))})
(def ^:private multiply
  {:doubles (fn ^double [^double x ^double y] (clojure.core/* x y))
   :longs (fn ^long [^long x ^long y] (unchecked-multiply x y))})
(def ^:private divide
  {:doubles (fn ^double [^double x ^double y] (clojure.core// x y))
   :longs (fn ^long [^long x ^long y] (quot x y))})

(defn- combine-elements!
  "xs[i] becomes op(xs[i], ys[i])."
  [op dtype xs ys]
  (if (floating? dtype)
    (let [^IFn$DDD f (:doubles op) ^doubles xs xs ^doubles ys ys]
      (dotimes [i (alength xs)]
        (aset xs i (.invokePrim f (aget xs i) (aget ys i)))))
    (let [^IFn$LLL f (:longs op) ^longs xs xs ^longs ys ys]
      (dotimes [i (alength xs)]
        (aset xs i (.invokePrim f (aget xs i) (aget ys i))))))
  xs)

(defn- combine!
  "`n` elements of `to` from `at` on become op(element of a, element of b); `b` may be a number."
  [op ^NDArray to at ^NDArray a b b-at n]
  (let [dtype (.dtype a)
        [to-pointer a-pointer] [(part to 0) (part a 0)]
        b-pointer (when-not (number? b) (part b 0))]
    (doseq [[start n] (spans n)]
      (let [ys (if b-pointer
                 (load-span b-pointer dtype (clojure.core/+ (long b-at) (long start)) n)
                 (repeated dtype b n))
            at (clojure.core/+ (long at) (long start))]
        (store-span! to-pointer dtype at
                     (combine-elements! op dtype (load-span a-pointer dtype at n) ys))))
    to))

(defn- check-alike [^NDArray a b]
  (when-not (number? b)
    (tensor b)
    (when-not (= (shape a) (shape b))
      (lib/fail "KVS_ERR_SHAPE" "arrays of shapes " (pr-str (shape a)) " and " (pr-str (shape b))
                " don't combine"))
    (when-not (= (dtype a) (dtype b))
      (lib/fail "KVS_ERR_DTYPE" "arrays of " (dtype a) " and " (dtype b) " don't combine"))))

(defn- like [^NDArray a]
  (empty (.dims a) {:ctx (.ctx a) :dtype (.dtype a)}))

(defn- combined
  "A new array of op(a, b)."
  [what op a b]
  (check-alike a b)
  (when-not (number? b)
    (dense what b))
  (combine! op (like (dense what a)) 0 a b 0 (size a)))

(defn- combine-rows!
  "Each row that `b` has is combined with that of `a`."
  [op ^NDArray a b]
  (let [n (row-size a)]
    (dorun (map-indexed (fn [i id]
                          (combine! op a (clojure.core/* (long id) n) a b
                                    (clojure.core/* (long i) n) n))
                        (indices b)))
    a))

(defn- combine-in-place!
  [what op a b rows?]
  (check-alike a b)
  (writable (dense what a))
  (if (and rows? (not (number? b)) (sparse? b))
    (combine-rows! op a b)
    (do
      (when-not (number? b)
        (dense what b))
      (combine! op a 0 a b 0 (size a)))))

(defn +
  "A new array: that of the first array and a number or an array, element by element."
  [a num-or-array]
  (combined "ndarray/+" add a num-or-array))

(defn -
  "As +."
  [a num-or-array]
  (combined "ndarray/-" subtract a num-or-array))

(defn *
  "As +."
  [a num-or-array]
  (combined "ndarray/*" multiply a num-or-array))

(defn /
  "As +; integers are cut towards zero."
  [a num-or-array]
  (combined "ndarray//" divide a num-or-array))

(defn +=
  "Adds to `a` in place. A row-sparse array adds to the rows that it has."
  [a num-or-array]
  (combine-in-place! "ndarray/+=" add a num-or-array true))

(defn -=
  "As +=."
  [a num-or-array]
  (combine-in-place! "ndarray/-=" subtract a num-or-array true))

(defn *=
  "Multiplies `a` in place."
  [a num-or-array]
  (combine-in-place! "ndarray/*=" multiply a num-or-array false))

(defn div=
  "Divides `a` in place."
  [a num-or-array]
  (combine-in-place! "ndarray/div=" divide a num-or-array false))

(defn copy-to
  "Copies the elements of `source` into `target`, which it returns."
  [source target]
  (check-alike target source)
  (writable (dense "ndarray/copy-to" target))
  (let [^Pointer to (part target 0)]
    (doseq [[start n] (spans (size (dense "ndarray/copy-to" source)))]
      (store-span! to (dtype target) start (load-span (part source 0) (dtype source) start n)))
    target))

(defn set
  "Overwrites `a` by a number, by the elements of an array, or by a sequence of numbers."
  [a value]
  (writable (dense "ndarray/set" a))
  (cond
    (number? value) (fill! a value)
    (instance? NDArray value) (copy-to value a)
    :else (put-numbers! a value)))

(defn ->dense
  "A new dense array of the same elements; rows that a row-sparse array lacks are zero."
  [a]
  (if (sparse? a)
    (combine-rows! add (like a) a)
    (copy-to a (like a))))

(defn as-in-context
  "`a` if it has that label, else a copy that has it."
  [a ctx]
  (if (= ctx (context a))
    a
    (copy-to a (empty (shape a) {:ctx ctx :dtype (dtype a)}))))

(defn to-array
  "Its elements in row-major order, as a Java array of floats, doubles or longs. Of a row-sparse array
  those of its dense form."
  [a]
  (let [^NDArray a (if (sparse? a) (->dense a) a)
        n (size a)]
    (when (> n Integer/MAX_VALUE)
      (lib/fail "KVS_ERR_ARGUMENT" "an array of " n " elements is too large for one of Java"))
    (if (= "float32" (.dtype a))
      (.getFloatArray (part a 0) 0 (int n))
      (load-span (part a 0) (.dtype a) 0 n))))

(defn ->vec
  "As to-array, a vector."
  [a]
  (vec (to-array a)))

(defn ->nd-vec
  "Its elements as vectors of vectors, as deep as it has dimensions; of a scalar the number."
  [a]
  (loop [elements (->vec a)
         dims (reverse (rest (shape a)))]
    (cond
      (empty? (shape a)) (first elements)
      (clojure.core/empty? dims) elements
      :else (recur (mapv vec (partition (first dims) elements)) (rest dims)))))

;; ---- What updaters are given ---------------------------------------------------------------------

(defn- dtype-of [code bits]
  (or (some (fn [[name what]] (when (= what [code bits]) name)) dtypes)
      (lib/fail "KVS_ERR_DTYPE" "an updater can't be given an array of code " code ", " bits " bits")))

(defn ^:no-doc view
  "An array of what a kvs_tensor_t says, without a copy; end-view before it is gone."
  [^Pointer from read-only]
  (let [ndim (.getInt from at-ndim)
        dims (if (zero? ndim) [] (vec (.getLongArray (.getPointer from at-shape) 0 ndim)))
        dtype (dtype-of (long (.getByte from at-code)) (long (.getByte from at-bits)))
        data (Pointer. (clojure.core/+ (.getLong from 0) (.getLong from at-byte-offset)))
        rows (.getPointer from at-rows)
        a (wrap data (when rows (Pointer. (.getLong rows 0))) dims dtype
                (context/cpu (.getInt from at-device-id)) read-only)]
    (when rows
      (put-rows! a (.getLong rows 8) (.getLong rows 8)))
    a))

(defmethod print-method NDArray [^NDArray a ^Writer writer]
  (.write writer (str "#<NDArray " (dtype a) " " (shape a) (when (sparse? a) " row-sparse") ">")))
