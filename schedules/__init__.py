"""The schedule library; installed as the package `tcpx.schedules`, so that `import` in a schedule finds it anywhere."""
