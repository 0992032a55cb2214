export CCACHE_DIR=/tmp/ccache CCACHE_BASEDIR=/tmp/wt/cpp CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=20G CCACHE_SLOPPINESS=time_macros,include_file_mtime,include_file_ctime,pch_defines
