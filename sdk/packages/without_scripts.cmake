# Run by CPack behind its own work: takes the scripts out of libkvstore0's package that CPack always
# writes for a shared library. All they do is call ldconfig, which the package's trigger does.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  if(package MATCHES "/libkvstore0_[^/]*\\.deb$")
    set(tree ${package}.tree)
    execute_process(COMMAND dpkg-deb -R ${package} ${tree} COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE ${tree}/DEBIAN/postinst ${tree}/DEBIAN/postrm)
    execute_process(COMMAND dpkg-deb --root-owner-group -Zgzip -b ${tree} ${package}
                    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE_RECURSE ${tree})
  endif()
endforeach()
