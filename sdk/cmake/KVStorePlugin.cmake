# kvstore_add_plugin(NAME SOURCES a.c … MANIFEST NAME.json.in [KIT] [COMPONENT c])
#
# Builds kvs_NAME.so as a plugin has to be built (hidden visibility, every symbol bound at load, none
# undefined, no run path), writes its manifest beside it in the build tree and for installation. In the manifest
# @KVS_LIBRARY@ becomes the path of the shared object relative to the manifest, @KVS_ARCH@ this
# machine's architecture, @PROJECT_VERSION@ the version. KIT links libkvstore-kit.a. The target
# kvs-plugins builds all of them. Both kvstore's own plugins and, through find_package(kvstore), those
# of others are built by this.
include(GNUInstallDirs)

if(CMAKE_C_LIBRARY_ARCHITECTURE)
  set(KVS_ARCH ${CMAKE_C_LIBRARY_ARCHITECTURE})
else()
  set(KVS_ARCH ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
endif()
set(KVS_PLUGIN_SUBDIR kvstore/plugins)
set(KVS_MANIFEST_SUBDIR share/kvstore/plugins.d)

function(kvstore_add_plugin name)
  cmake_parse_arguments(arg "KIT" "MANIFEST;COMPONENT" "SOURCES" ${ARGN})
  if(NOT arg_COMPONENT)
    set(arg_COMPONENT ${name})
  endif()
  set(build_dir ${CMAKE_BINARY_DIR}/lib/${KVS_PLUGIN_SUBDIR})
  set(manifest_dir ${CMAKE_BINARY_DIR}/${KVS_MANIFEST_SUBDIR})

  add_library(kvs_${name} MODULE ${arg_SOURCES})
  if(NOT TARGET kvs-plugins)
    add_custom_target(kvs-plugins)
  endif()
  add_dependencies(kvs-plugins kvs_${name})
  set_target_properties(kvs_${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${build_dir} SKIP_BUILD_RPATH ON)
  target_include_directories(kvs_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_include_directories(kvs_${name} PRIVATE
    $<TARGET_PROPERTY:kvstore::kvstore,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_options(kvs_${name} PRIVATE -Wl,-z,now -Wl,-z,relro -Wl,--exclude-libs,ALL)
  if(NOT KVS_SANITIZE)
    target_link_options(kvs_${name} PRIVATE -Wl,-z,defs)
  endif()
  if(arg_KIT)
    target_link_libraries(kvs_${name} PRIVATE kvstore::kit)
  endif()

  file(RELATIVE_PATH KVS_LIBRARY ${manifest_dir} ${build_dir}/kvs_${name}.so)
  configure_file(${arg_MANIFEST} ${manifest_dir}/${name}.json @ONLY)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    set(KVS_LIBRARY ${CMAKE_INSTALL_LIBDIR}/${KVS_PLUGIN_SUBDIR}/kvs_${name}.so)
  else()
    file(RELATIVE_PATH KVS_LIBRARY /p/${KVS_MANIFEST_SUBDIR}
         /p/${CMAKE_INSTALL_LIBDIR}/${KVS_PLUGIN_SUBDIR}/kvs_${name}.so)
  endif()
  configure_file(${arg_MANIFEST} ${CMAKE_CURRENT_BINARY_DIR}/installed/${name}.json @ONLY)
  install(TARGETS kvs_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${KVS_PLUGIN_SUBDIR}
          COMPONENT ${arg_COMPONENT})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/installed/${name}.json
          DESTINATION ${KVS_MANIFEST_SUBDIR} COMPONENT ${arg_COMPONENT})
endfunction()
